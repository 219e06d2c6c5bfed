"""What servers say to the doctor: reachable or not, TLS, clocks, rights."""

from __future__ import annotations

import dataclasses

import pytest

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command.finding import FAIL, OK, WARN
from jetstream_spark.command.needed_subjects import PUBLISH, SUBSCRIBE, Need
from jetstream_spark.command.server_look import look_at_clock, look_at_rights, look_at_servers
from jetstream_spark.options.format_options import SinkOptions


def connection(**options: str):
    return SinkOptions.parse({"requestTimeout": "60s"} | options).connection


def test_each_server_by_itself(genuine):
    url = f"nats://127.0.0.1:1,{genuine.url}"
    down, up = look_at_servers(connection(servers=url))
    assert (down.status, down.check) == (FAIL, "server 127.0.0.1:1")
    assert "[CONNECTION_FAILED]" in down.what and down.remedy
    assert (up.status, up.what.startswith("version 2.")) == (OK, True)


def test_tls_and_how_long_the_certificate_is_good(start_genuine, pki, tmp_path):
    config = tmp_path / "tls.conf"
    config.write_text(
        f'tls {{ cert_file: "{pki.cert("server")}", key_file: "{pki.key("server")}" }}'
    )
    port = start_genuine("-c", str(config)).port
    options = connection(servers=f"tls://localhost:{port}", tlsCaFile=pki.cert("ca"))
    signed_in, tls = look_at_servers(options)
    assert signed_in.status == OK
    assert "certificate is good for" in tls.what
    [refused] = look_at_servers(connection(servers=f"tls://localhost:{port}"))
    assert refused.status == FAIL


def test_a_password_in_the_open_is_noticed(genuine, monkeypatch):
    options = connection(servers=genuine.url, user="a", password="b")
    assert [one.status for one in look_at_servers(options)] == [OK]
    monkeypatch.setattr("jetstream_spark.command.server_look._LOOPBACK", ("none",))
    assert [one.status for one in look_at_servers(options)] == [OK, WARN]


def test_clocks_are_compared(stream, monkeypatch):
    control = Control(this_host(), stream.sink().connection, "test")
    [same] = run(look_at_clock(control, stream.name))
    assert same.status == OK
    now = this_host().wall_time_ns
    monkeypatch.setattr(type(this_host()), "wall_time_ns", lambda self: now() - 700 * 10**9)
    [behind] = run(look_at_clock(control, stream.name))
    assert (behind.status, "behind" in behind.what) == (FAIL, True)


@pytest.fixture
def as_user(start_genuine, tmp_path):
    def control(rules: str) -> Control:
        config = tmp_path / "users.conf"
        config.write_text(
            f"authorization {{ users: [ {{user: job, password: x, permissions: {rules}}} ] }}"
        )
        server = start_genuine("-c", str(config))
        options = connection(servers=server.url, user="job", password="x")
        return Control(this_host(), options, "test")

    yield control
    pool.close_all(this_host())


NEEDS = [
    Need(PUBLISH, "a.>", "rows"),
    Need(SUBSCRIBE, "_INBOX.>", "answers"),
    Need(PUBLISH, "_INBOX.>", "late rows", "they come twice"),
]


def test_what_is_missing_is_named(as_user):
    control = as_user('{publish: ["a.b", "$SYS.REQ.USER.INFO"]}')
    rows, late = run(look_at_rights(control, NEEDS))
    assert (rows.status, late.status) == (FAIL, WARN)
    assert "user 'job' may not publish a.> (rows)" in rows.what
    assert rows.remedy == "Allow the user to publish a.>."
    assert late.remedy == "Allow the user to publish _INBOX.>, or they come twice."


def test_a_user_who_may_everything(stream):
    control = Control(this_host(), stream.sink().connection, "test")
    [found] = run(look_at_rights(control, NEEDS))
    assert found.status == OK


def test_a_user_who_may_not_even_ask(as_user):
    control = as_user('{publish: ["a.>"]}')
    [found] = run(look_at_rights(control, NEEDS))
    assert found.status == WARN
    assert "publish a.>" in found.remedy and "$SYS.REQ.USER.INFO" in found.remedy
    assert dataclasses.replace(found)
