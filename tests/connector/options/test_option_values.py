"""Values of options: what is understood, and that the rest is refused with the allowed form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream_spark.errors import SecretUnreadableError
from jetstream_spark.options.option_values import (
    Secret,
    ServerAddress,
    boolean,
    byte_size,
    duration_seconds,
    rfc3339,
    server_address,
    timestamp_ns,
    whole_number,
)


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (duration_seconds, "250ms", 0.25),
        (duration_seconds, " 5S ", 5.0),
        (duration_seconds, "1m30s", 90.0),
        (duration_seconds, "1.5h", 5400.0),
        (byte_size, "1048576", 1 << 20),
        (byte_size, "8m", 8 << 20),
        (byte_size, "64MiB", 64 << 20),
        (byte_size, "2 kb", 2048),
        (boolean, "TRUE", True),
        (boolean, "false", False),
        (timestamp_ns, "1970-01-01T00:00:01Z", 10**9),
        (timestamp_ns, "1970-01-01T01:00:00.000000001+01:00", 1),
        (timestamp_ns, "1970-01-02", 86400 * 10**9),
        (timestamp_ns, "1500000", 1500 * 10**9),
        (server_address, "nats://h:1", ServerAddress("h", 1)),
        (server_address, "tls://h", ServerAddress("h", 4222, True)),
        (server_address, "h", ServerAddress("h", 4222)),
        (server_address, "[::1]:5", ServerAddress("::1", 5)),
    ],
)
def test_understood(parse, text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *[(duration_seconds, text) for text in ("5", "", "-5s", "0s", "5 parsecs", "5s!")],
        *[(byte_size, text) for text in ("", "m", "-1", "0", "1.5m", "1 apple")],
        *[(boolean, text) for text in ("1", "yes", "")],
        *[(timestamp_ns, text) for text in ("", "yesterday", "2026-13-01T00:00:00Z", "12")],
        (timestamp_ns, "1795255200000000"),  # microseconds
        (timestamp_ns, "9999-12-31T23:59:59.999999999-00:01"),
        (timestamp_ns, "0001-01-01T00:00:00+00:01"),
        *[
            (server_address, text)
            for text in ("", "http://h", "nats://", "h:x", "h:99999", "nats://h/path", "h:0")
        ],
    ],
)
def test_refused(parse, text):
    with pytest.raises(ValueError):
        parse(text)


def test_a_number_below_the_minimum():
    assert whole_number(" 3 ", 3) == 3
    with pytest.raises(ValueError, match="3 or more"):
        whole_number("2", 3)


@given(st.integers(0, 4 * 10**18))
def test_times_survive_the_way_to_the_server(moment):
    assert timestamp_ns(rfc3339(moment)) == moment


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00.000000000Z", "9999-12-31T23:59:59.999999999Z"]
)
def test_the_first_and_the_last_time(text):
    assert rfc3339(timestamp_ns(text)) == text


def test_an_address_never_repeats_its_password():
    with pytest.raises(ValueError) as raised:
        server_address("nats://me:hunter2@h:1")
    assert "hunter2" not in str(raised.value)


def test_secrets_hide_and_resolve(monkeypatch, tmp_path):
    assert "hunter2" not in repr(Secret("hunter2")) + str(Secret("hunter2"))
    assert Secret("hunter2").resolve("password") == "hunter2"
    monkeypatch.setenv("JETSTREAM_TEST_SECRET", "from env")
    assert Secret("env:JETSTREAM_TEST_SECRET").resolve("password") == "from env"
    (tmp_path / "s").write_text("from file\n")
    assert Secret(f"file:{tmp_path / 's'}").resolve("password") == "from file"
    for missing in ("env:JETSTREAM_NO_SUCH", f"file:{tmp_path / 'none'}"):
        with pytest.raises(SecretUnreadableError, match="option 'token'"):
            Secret(missing).resolve("token")
