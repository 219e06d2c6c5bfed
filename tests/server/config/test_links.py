"""Exports and imports as written; the texts were recorded from `nats-server -t` 2.15.1."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import MILLISECOND, MINUTE
from jetstream_server.config.lexer import parse_text
from jetstream_server.config.links import read_exports, read_imports
from jetstream_server.config.options import ExportOptions, ImportOptions, LatencyOptions


def read(reader, text):
    errors = []
    return reader(parse_text(f"x: {text}", "a.conf").value["x"], errors), [e.text for e in errors]


def test_exports():
    made, errors = read(
        read_exports,
        '[{stream: "a.>"}, {stream: b, accounts: [X, Y]}, {accounts: [X]},'
        ' {service: c, response_type: stream, response_threshold: "300ms"},'
        ' {service: "d.*", response: chunk, account_token_position: 2, latency: l},'
        " {service: e, latency: {sampling: 30%, subject: m}},"
        " {service: f, latency: {sampling: Headers, subject: n}},"
        " {service: g, latency: {subject: o}}]",
    )
    assert errors == []
    assert made == (
        ExportOptions("stream", "a.>"),
        ExportOptions("stream", "b", ("X", "Y")),
        ExportOptions("service", "c", response="stream", response_threshold_ns=300 * MILLISECOND),
        ExportOptions(
            "service",
            "d.*",
            account_token_position=2,
            response="chunked",
            latency=LatencyOptions("l", 100),
        ),
        ExportOptions("service", "e", latency=LatencyOptions("m", 30)),
        ExportOptions("service", "f", latency=LatencyOptions("n", 0)),
        ExportOptions("service", "g", latency=LatencyOptions("o", 100)),
    )
    assert made[0].response_threshold_ns == 2 * MINUTE


def test_imports():
    made, errors = read(
        read_imports,
        '[{stream: {account: A, subject: "a.>"}, prefix: p}, {to: nothing},'
        " {stream: {account: A, subject: b}, to: c},"
        ' {service: {account: A, subject: "s.*"}, to: "t.$1", share: true},'
        ' {service: {account: B, subject: "u.*"}, to: "t.$1"}]',
    )
    assert errors == []
    assert [each.local_subject for each in made] == ["p.a.>", "c", "t.$1", "t.$1"]
    assert made[2] == ImportOptions("service", "A", "s.*", to="t.$1", is_sharing=True)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[{stream: 5}]", "Expected stream name to be string, got int64"),
        ("[{service: 5}]", "Expected service name to be string, got int64"),
        ("[{stream: a, service: b}]", 'Detected service "b" but already saw a stream'),
        ("[{stream: a, response: single}]", "Detected response directive on non-service"),
        ('[{stream: a, threshold: "5s"}]', "Detected response directive on non-service"),
        ("[{stream: a, latency: x}]", "Detected latency directive on non-service"),
        ("[{stream: a, allow_trace: true}]", "Detected allow_trace directive on non-service"),
        ("[{service: a, response: no}]", "Expected response type to be string, got bool"),
        ("[{service: a, response: many}]", 'Unknown response type: "many"'),
        ("[{service: a, response: single, response_type: stream}]",
         "Duplicate response type definition"),
        ('[{service: a, threshold: "1s", response_time: "1s"}]',
         "Duplicate response threshold detected"),
        ('[{service: a, threshold: "5x"}]',
         'Expected response threshold to be a parseable time duration, got "5x"'),
        ("[{service: a, threshold: 5 }]",
         "Expected response threshold to be a parseable time duration, got int64"),
        ("[{service: a, latency: 5 }]",
         "Expected latency entry to be a map/struct or string, got int64"),
        ("[{service: a, latency: {sampling: 500, subject: l}}]",
         "bad sampling percentage, should be 1-100"),
        ("[{service: a, latency: {sampling: x, subject: l}}]",
         'Failed to parse latency sample: strconv.Atoi: parsing "x": invalid syntax'),
        ("[{service: a, latency: {sampling: 1.5, subject: l}}]",
         "Expected latency sample to be a string or map/struct, got float64"),
        ("[{service: a, latency: {subject: 5 }}]",
         "Expected latency subject to be a string, got int64"),
        ("[{service: a, latency: {sampling: 50 }}]", "Latency subject required, but missing"),
        ("[{service: a, accounts: B}]",
         "interface conversion: interface {} is string, not []interface {}"),
        ("[{service: a, nope: 1 }]", 'unknown field "nope"'),
    ],
)  # fmt: skip
def test_exports_refused(text, error):
    assert read(read_exports, text)[1] == [error]


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("[{stream: 5 }]", ["Stream entry should be an account map, got int64"]),
        ("[{service: 5 }]", ["Service entry should be an account map, got int64"]),
        ("[{stream: {account: X}}]", ["Expect an account name and a subject"]),
        ("[{stream: {account: X, subject: s}, service: {account: X, subject: v}}]",
         ["Detected service but already saw a stream"]),
        ("[{stream: {account: X, subject: s}, prefix: p, to: q}]",
         ["Stream import can not have a 'prefix' and a 'to' property"]),
        ("[{service: {account: X, subject: v}, allow_trace: true}]",
         ["Detected allow_trace directive on a non-stream"]),
        ("[{service: {account: X, subject: v}}, {service: {account: X, subject: v}}]",
         ['Duplicate service import subject "v", previously used in import for account "X",'
          ' subject "v"']),
        ("[{nope: 1 }]", ['unknown field "nope"']),
    ],
)  # fmt: skip
def test_imports_refused(text, errors):
    assert read(read_imports, text)[1] == errors


def test_what_is_no_array(tmp_path):
    from jetstream_server.base.errors import ConfigError

    with pytest.raises(ConfigError, match="Exports should be an array, got int64"):
        read(read_exports, "5")
    with pytest.raises(ConfigError, match="Imports should be an array, got string"):
        read(read_imports, "a")
