"""Configuration files as options, and what is wrong with them.

`config_vectors.json` was recorded from `nats-server -t` 2.15.1: each text with its error (lines in
any order) or, when it is valid, the digest. Where this server differs on purpose is listed here.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.base.clock import MINUTE, SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config import jetstream_block, tls_block, websocket_block
from jetstream_server.config.lexer import parse_text
from jetstream_server.config.load import _IDLE_IN, load, options_of
from jetstream_server.config.options import (
    AccountJetStreamOptions,
    ExportOptions,
    ImportOptions,
    JetStreamOptions,
    MappingDestination,
    ServerOptions,
)
from jetstream_server.config.permissions import ResponsePermissions, SubjectPermissions

VECTORS = json.loads((Path(__file__).parent / "config_vectors.json").read_text())
# A part that names every kind of mistake, for the run against the genuine server.
LIVE = VECTORS[::25]

# Arrays of numbers, and what the genuine lexer makes of a stray slash or a NUL.
DEVIATIONS = {
    "a: [1\n2]": 'n.conf:1:0: unknown field "a"\n',
    "a: {b:1]": 'Parse error on line 1: \'Expected a map value terminator "," or a map '
    "terminator \"}\", but got ']' instead.'",
    "a: 9223372036854775807k": "integer '9223372036854775807k' is out of the range",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the files that vectors include."""
    (tmp_path / "x.conf").write_text("debug: true\n")
    (tmp_path / "y.conf").write_text("trace: true\n")
    (tmp_path / "bad.conf").write_text("port: [\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outcome(text: str) -> dict[str, Any]:
    try:
        options = options_of(parse_text(text, "n.conf", {}))
    except ConfigError as error:
        return {"text": text, "error": str(error).strip("\n")}
    return {"text": text, "digest": options.config_digest}


def lines(vector: dict[str, Any]) -> list[str]:
    return sorted(vector.get("error", "").split("\n"))


def test_as_the_genuine_server(folder: Path) -> None:
    for vector in VECTORS:
        made = outcome(vector["text"])
        assert lines(made) == lines(vector), vector["text"]
        if "digest" in vector:
            assert made["digest"] == vector["digest"], vector["text"]


@pytest.mark.genuine
def test_the_vectors_are_true(folder: Path, genuine_binary: str) -> None:
    for vector in LIVE:
        Path("n.conf").write_bytes(vector["text"].encode())
        command = [genuine_binary, "-t", "-c", "n.conf"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=20)
        printed = run.stderr.removeprefix("nats-server: ").strip("\n")
        if "error" in vector:
            assert run.returncode == 1
            assert sorted(printed.split("\n")) == lines(vector)
        else:
            assert run.returncode == 0, vector["text"]
            assert vector.get("digest", "") in printed


@pytest.mark.parametrize(("text", "error"), DEVIATIONS.items())
def test_deviations(folder: Path, text: str, error: str) -> None:
    assert outcome(text)["error"] == error.strip("\n")


def read(text: str) -> ServerOptions:
    Path("n.conf").write_text(text)
    return load("n.conf")


def test_a_file_of_every_kind(folder: Path) -> None:
    options = read(
        """
        server_name: n1
        listen: 127.0.0.1:4300
        http: "localhost:8300"
        max_payload: 8MB
        ping_interval: "1m30s"
        lame_duck_duration: "1m"
        no_header_support: true
        server_tags: [a, b]
        server_metadata { zone: z1 }
        logtime: off
        jetstream {
          store_dir: "/data/js", max_mem: 1GB, max_file: "10G", domain: hub
          sync_interval: "2m", limits { duplicate_window: "1m", max_ack_pending: 50 }
        }
        websocket { listen: "0.0.0.0:8080", no_tls: true, compression: true }
        """
    )
    assert (options.server_name, options.host, options.port) == ("n1", "127.0.0.1", 4300)
    assert (options.http_host, options.http_port) == ("localhost", 8300)
    assert options.max_payload == 8 << 20
    assert options.ping_interval_ns == 90 * SECOND
    assert options.lame_duck_duration_ns == MINUTE
    assert not options.has_headers
    assert options.server_tags == ("a", "b")
    assert options.server_metadata == {"zone": "z1"}
    assert not options.is_logging_time
    assert options.jetstream == JetStreamOptions(
        is_enabled=True,
        store_dir="/data/js",
        max_memory=1 << 30,
        max_file=10 << 30,
        domain="hub",
        sync_interval_ns=2 * MINUTE,
        duplicate_window_ns=MINUTE,
        max_ack_pending=50,
    )
    assert options.websocket is not None
    assert (options.websocket.port, options.websocket.is_without_tls) == (8080, True)
    assert options.config_file == "n.conf"
    assert options.config_digest.startswith("sha256:")


@pytest.mark.parametrize("text", ["jetstream: true", "jetstream: enabled", "jetstream {}"])
def test_jetstream_in_short(folder: Path, text: str) -> None:
    assert read(text).jetstream == JetStreamOptions(is_enabled=True)


@pytest.mark.parametrize(
    ("text", "sync_interval_ns"),
    [("group", 0), ("always", 0), ("5s", 5 * SECOND), ('"0s"', 0), ('"-1s"', 0)],
)
def test_sync_policies(folder: Path, text: str, sync_interval_ns: int) -> None:
    for key in ("sync", "sync_interval"):
        options = read(f"jetstream {{ {key}: {text} }}").jetstream
        assert options.sync_interval_ns == sync_interval_ns


ACCOUNTS = """
accounts {
  A { jetstream: { max_mem: 64MB, max_file: 32MB, max_streams: 10, max_consumers: 20 }
      users: [ { user: a, password: $2a$11$hash, permissions: {
          publish: { allow: ["orders.>", "$JS.API.>"], deny: "orders.secret" }
          subscribe: ["_INBOX.>", "work q1"], allow_responses: { max: 5, expires: "1m" } } } ]
      exports: [ { stream: "pub.>" }, { service: "svc.*", accounts: [B] } ] }
  B { jetstream: enabled, limits: { max_connections: 3, max_payload: 1kb }
      imports: [ { stream: { account: A, subject: "pub.>" }, prefix: "fromA" } ]
      mappings: { "in.*": [ { dest: "out.$1", weight: 80% }, { dest: "x.$1", weight: 20 } ] } }
  SYS { users: [ { user: admin, pass: x } ] }
}
system_account: SYS
no_auth_user: a
"""


def test_accounts(folder: Path) -> None:
    options = read(ACCOUNTS)
    a, b, system = options.accounts
    assert (a.name, b.name, system.name) == ("A", "B", options.system_account)
    assert a.jetstream == AccountJetStreamOptions(
        max_memory=64 << 20, max_store=32 << 20, max_streams=10, max_consumers=20
    )
    assert b.jetstream == AccountJetStreamOptions()
    assert system.jetstream is None
    (user,) = a.users
    assert (user.user, user.password) == ("a", "$2a$11$hash")
    assert user.permissions is not None
    assert user.permissions.publish == SubjectPermissions(
        ("orders.>", "$JS.API.>"), ("orders.secret",)
    )
    assert user.permissions.subscribe.allow == ("_INBOX.>", "work q1")
    assert user.permissions.responses == ResponsePermissions(5, MINUTE)
    assert (b.max_connections, b.max_payload) == (3, 1024)
    assert a.exports[1] == ExportOptions("service", "svc.*", ("B",))
    assert b.imports == (ImportOptions("stream", "A", "pub.>", prefix="fromA"),)
    assert b.mappings[0].destinations[0] == MappingDestination("out.$1", 80)
    assert options.no_auth_user == "a"


def test_encryption(folder: Path) -> None:
    options = read("jetstream { ek: 'a secret', prev_ek: older, cipher: aes }").jetstream
    assert (options.encryption_key, options.previous_encryption_key) == ("a secret", "older")
    assert options.cipher == "aes" and "secret" not in repr(options)
    assert read("jetstream { key: x, cipher: ChaChaPoly }").jetstream.cipher == "chacha"
    with pytest.raises(ConfigError, match='Unknown cipher type: "rot13"'):
        read("jetstream { key: x, cipher: rot13 }")


def test_ways_to_trace_trace(folder: Path) -> None:
    for text in ("trace: true", "trace_headers: true", "trace_verbose: true"):
        assert read(text).is_tracing
    assert read("trace_headers: true").is_tracing_headers
    assert not read("trace_headers: false\ntrace_verbose: false").is_tracing


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cluster { name: x }", '"cluster": clusters'),
        ("leafnodes { port: 1 }", '"leafnodes": leaf nodes'),
        ("gateway { name: x }", '"gateway": gateways'),
        ("mqtt { port: 1 }", '"mqtt": MQTT'),
        ("https: 5", '"https": HTTPS monitoring'),
        ("authorization { auth_callout { issuer: x } }", '"auth_callout"'),
    ],
)
def test_options_not_served_are_refused_by_name(folder: Path, text: str, name: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(text)
    assert name in str(error.value)
    assert "is not supported by this server" in str(error.value)
    assert str(error.value).startswith("n.conf:1:")


@pytest.mark.parametrize(
    "text",
    [
        'mappings: { a: [{ dest: b, weight: "%s" }] }',
        'jetstream { max_mem: "%sG" }',
        'listen: "host:%s"',
        "port: %s",
        "ping_interval: '%sh'",
        'accounts { A { exports: [{ service: s, latency: { sampling: "%s%%", subject: l } }] } }',
    ],
)
def test_no_number_is_too_long_to_be_refused(folder: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        read(text % ("9" * 5000))


def test_all_mistakes_are_found_in_the_order_of_the_file(folder: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read("porte: 1\ndebug: 5\nauthorization { users: [ { pass: x } ] }\n")
    assert str(error.value) == (
        'n.conf:1:0: unknown field "porte"\n'
        "n.conf:2:1: interface conversion: interface {} is int64, not bool\n"
        "n.conf:3:28: User entry requires a user\n"
    )


KEYS = sorted(
    {word for vector in VECTORS for word in re.findall(r"([a-z_]{3,}):? [^:]", vector["text"])}
)
SCALARS = st.sampled_from(
    ["1", "-1", "0.5", "true", "x", "a.b", '"a..b"', "1s", "enabled", "always", "1kb", '""', "$x"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
        st.lists(st.tuples(st.sampled_from(KEYS), inner), max_size=4).map(
            lambda pairs: "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        ),
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), min_size=1, max_size=4))
def test_any_options_are_read_or_refused(pairs: list[tuple[str, str]]) -> None:
    text = "\n".join(f"{key}: {item}" for key, item in pairs)
    try:
        options_of(parse_text(text, "n.conf", {"x": "5"}))
    except ConfigError as error:
        assert str(error)


@given(
    st.sampled_from(["exports", "imports", "users", "jetstream", "limits", "mappings"]),
    st.sampled_from(["stream", "service", "accounts", "permissions", "user", "publish"]),
    VALUES,
)
def test_any_account_is_read_or_refused(block: str, key: str, item: str) -> None:
    for text in (f"[{{{key}: {item}}}]", f"{{{key}: {item}}}", item):
        try:
            options_of(parse_text(f"accounts {{ A {{ {block}: {text} }} }}", "n.conf", {"x": "5"}))
        except ConfigError as error:
            assert str(error)


def test_secrets_are_not_shown(folder: Path) -> None:
    options = read("authorization { user: u, password: hunter2 }")
    assert options.authorization.is_required
    assert "hunter2" not in repr(options)


def test_options_without_effect_are_warned_of(folder: Path) -> None:
    jetstream = "\njetstream: {request_queue_limit: 5}\n"
    options = read(ACCOUNTS + "\nsyslog: true\nprof_port: 0\n" + jetstream)
    assert [warning.split(":")[3].strip() for warning in options.warnings] == [
        '"syslog" has no effect in this server',
        '"prof_port" has no effect in this server',
        '"request_queue_limit" of "jetstream" has no effect in this server',
    ]
    assert read("port: 1").warnings == ()
    assert read("accounts: [A]").warnings == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("jetstream { meta_compact: 5 }", '"meta_compact" of "jetstream"'),
        ("jetstream { limits { max_ha_assets: 5 } }", '"max_ha_assets" of "jetstream.limits"'),
        ("TLS { connection_rate_limit: 5 }", '"connection_rate_limit" of "tls"'),
        ("websocket { no_tls: true, advertise: a }", '"advertise" of "websocket"'),
        ("websocket { tls { ocsp_peer: true } }", '"ocsp_peer" of "websocket.tls"'),
    ],
)
def test_options_without_effect_are_warned_of_in_blocks(folder: Path, text: str, name: str) -> None:
    (warning,) = read(text).warnings
    assert f"{name} has no effect in this server" in warning


@pytest.mark.parametrize(
    ("path", "table"),
    [
        (("jetstream",), jetstream_block._JETSTREAM),
        (("tls",), tls_block._TLS),
        (("websocket",), websocket_block._WEBSOCKET),
    ],
)
def test_whatever_a_block_reads_and_forgets_is_in_the_table_of_warnings(path, table) -> None:
    refused = {"tpm", "authorization", "authentication"}
    forgotten = {name for name, (field, _) in table.items() if not field}
    assert forgotten - refused == _IDLE_IN[path]
