"""Refused mirrors and sources: texts and codes as the genuine server gives them."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.configs.account_limits import AccountLimits, ServerLimits
from jetstream_server.jetstream.configs.origin_checks import check_filters
from jetstream_server.jetstream.configs.stream_checks import check_config
from jetstream_server.jetstream.configs.stream_config import StreamConfigRequest
from jetstream_server.jetstream.wire import go_json

OVERLAP = [{"src": "a.*", "dest": "b.$1"}, {"src": "a.b", "dest": "c"}]


def mirror(**source: Any) -> dict[str, Any]:
    return {"mirror": {"name": "MK", **source}}


def sources(**source: Any) -> dict[str, Any]:
    return {"sources": [{"name": "MK", **source}]}


REFUSED: list[tuple[dict[str, Any], int]] = [
    ({**mirror(), "first_seq": 1}, 10143),
    ({**mirror(), "subjects": ["a"]}, 10034),
    ({**mirror(), "sources": [{"name": "x"}]}, 10031),
    ({**mirror(), "allow_msg_counter": True}, 10173),
    ({**mirror(), "allow_atomic": True, "allow_batched": True}, 10198),
    (
        {**mirror(), "allow_batched": True, "subject_delete_marker_ttl": SECOND},
        10209,
    ),
    ({**mirror(), "allow_msg_schedules": True}, 10186),
    ({"mirror": {}}, 10142),
    ({"mirror": {"name": "a.b"}, "first_seq": 1}, 10143),
    (mirror(filter_subject="a", subject_transforms=[{"src": "a", "dest": "b"}]), 10150),
    (mirror(subject_transforms=[{"src": "a..", "dest": "b"}]), 10151),
    (mirror(subject_transforms=[{"src": "a.*", "dest": "b.$2"}]), 10154),
    (mirror(subject_transforms=OVERLAP), 10152),
    (mirror(consumer={}), 10213),
    (mirror(external={"api": "x", "deliver": "d.*"}), 10024),
    (mirror(external={"api": "$JS.API"}), 10021),
    (sources(name="a.b"), 10141),
    ({"sources": [None]}, 10141),
    ({"sources": [{"name": "MK"}, {"name": "MK", "opt_start_seq": 3}]}, 10140),
    ({**sources(), "allow_msg_schedules": True}, 10187),
    (sources(filter_subject="a", subject_transforms=[{"src": "a", "dest": "b"}]), 10144),
    (sources(subject_transforms=[{"src": "a..", "dest": "b"}]), 10145),
    (sources(subject_transforms=[{"src": "a.*", "dest": "b.$2"}]), 10146),
    (sources(subject_transforms=OVERLAP), 10147),
    (sources(consumer={}), 10215),
    (sources(external={"api": "$JS.API"}), 10021),
]

TEXTS: list[tuple[dict[str, Any], int, str]] = [
    (
        {**mirror(), "subject_delete_marker_ttl": SECOND},
        10052,
        "subject delete markers forbidden on mirrors",
    ),
    (
        mirror(external={"api": "$JS.*.API"}),
        10052,
        'stream external api prefix "$JS.*.API" must be a valid subject without wildcards',
    ),
    (mirror(name="S"), 10052, "detected cycle"),
    (sources(name="S"), 10052, "detected cycle"),
    (
        mirror(subject_transforms=[{"src": "a.*", "dest": "b.$2"}]),
        10154,
        "mirror transform: invalid mapping destination: wildcard index out of range in $2: [2]",
    ),
    (
        sources(subject_transforms=[{"src": "a..", "dest": "b"}]),
        10145,
        "source transform source: invalid subject a..",
    ),
]


def refusal(fields: dict[str, Any]) -> ApiError:
    request = go_json.decode(go_json.encode({"name": "S", **fields}), StreamConfigRequest)
    with pytest.raises(ApiError) as caught:
        check_config(request.config(), AccountLimits(), ServerLimits(), pedantic=False)
    return caught.value


@pytest.mark.parametrize(("fields", "err_code"), REFUSED, ids=range(len(REFUSED)))
def test_refused(fields: dict[str, Any], err_code: int) -> None:
    assert refusal(fields).err_code == err_code


@pytest.mark.parametrize(("fields", "err_code", "text"), TEXTS, ids=range(len(TEXTS)))
def test_texts(fields: dict[str, Any], err_code: int, text: str) -> None:
    error = refusal(fields)
    assert (error.err_code, error.description) == (err_code, text)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (mirror(filter_subject="a..b"), "subject filter 'a..b' for the mirror invalid subject"),
        (sources(filter_subject="a..b"), "subject filter 'a..b' for the source: invalid subject"),
    ],
)
def test_malformed_filters_are_found_when_the_stream_is_set_up(
    fields: dict[str, Any], text: str
) -> None:
    request = go_json.decode(go_json.encode({"name": "S", **fields}), StreamConfigRequest)
    with pytest.raises(ApiError) as caught:
        check_filters(request.config())
    assert (caught.value.err_code, caught.value.description) == (10049, text)
    check_filters(go_json.decode(b'{"name":"S","sources":[{"name":"X"}]}', StreamConfigRequest))


def check(fields: dict[str, Any], *others: dict[str, Any], pedantic: bool = False) -> str:
    """Return why a stream may not be beside others, empty when it may."""
    requests = [
        go_json.decode(go_json.encode({"name": "S", **each}), StreamConfigRequest).config()
        for each in (fields, *others)
    ]
    streams = {config.name: config for config in requests[1:]}
    try:
        check_config(requests[0], AccountLimits(), ServerLimits(), streams, pedantic=pedantic)
    except ApiError as error:
        return error.description
    return ""


def stream(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def copies(name: str, *origins: str, **source: Any) -> dict[str, Any]:
    return {"name": name, "sources": [{"name": origin, **source} for origin in origins]}


CYCLE = "detected cycle"


@pytest.mark.parametrize(
    ("fields", "others", "text"),
    [
        (copies("S", "A"), [copies("A", "S")], CYCLE),
        (copies("S", "A"), [copies("A", "B"), copies("B", "C", "S")], CYCLE),
        (copies("S", "A"), [stream("A", mirror={"name": "S"})], CYCLE),
        (copies("S", "A"), [stream("A", mirror={"name": "S", "filter_subject": "x"})], CYCLE),
        (stream("S", mirror={"name": "A"}), [stream("A", mirror={"name": "S"})], CYCLE),
        # What closes the circle takes only some subjects.
        (copies("S", "A"), [copies("A", "S", filter_subject="x")], ""),
        (copies("S", "A", filter_subject="x"), [copies("A", "S")], CYCLE),
        (copies("S", "S", filter_subject="x"), [], ""),
        # ... but those that are published to whoever takes them.
        ({**copies("S", "S", filter_subject="a.x"), "subjects": ["b", "a.>"]}, [], CYCLE),
        ({**copies("S", "S", filter_subject=">"), "subjects": ["a.x"]}, [], CYCLE),
        ({**copies("S", "S", filter_subject="b.x"), "subjects": ["a.>"]}, [], ""),
        (copies("S", "A"), [{**copies("A", "S", filter_subject="x"), "subjects": ["x"]}], CYCLE),
        (
            {**copies("S", "A"), "subjects": ["x"]},
            [{**copies("A", "S", filter_subject="x"), "subjects": ["y"]}],
            "",
        ),
        # Circles elsewhere, and streams elsewhere.
        (copies("S", "A"), [copies("A", "B"), copies("B", "A")], ""),
        (copies("S", "A"), [copies("A", "S", external={"api": "x", "deliver": "y"})], ""),
        (copies("S", "A", "B"), [copies("A", "C"), copies("B", "C"), stream("C")], ""),
    ],
)
def test_cycles(fields: dict[str, Any], others: list[dict[str, Any]], text: str) -> None:
    assert check(fields, *others) == text


def test_messages_must_fit() -> None:
    origin = stream("O", max_msg_size=100)
    too_big = "stream mirror must have max message size >= source"
    assert check(stream("S", mirror={"name": "O"}, max_msg_size=99), origin) == too_big
    assert check(stream("S", mirror={"name": "O"}, max_msg_size=100), origin) == ""
    assert check(stream("S", mirror={"name": "O"}), origin) == ""
    too_big = "stream source must have max message size >= target"
    assert check({**copies("S", "O"), "max_msg_size": 99}, origin) == too_big
    assert check({**copies("S", "O"), "max_msg_size": 99}, stream("O")) == ""
    elsewhere = copies("S", "O", external={"api": "x", "deliver": "y"})
    assert check({**elsewhere, "max_msg_size": 99}, origin) == ""


def test_pedantic_mirrors_say_how_direct_gets_are_answered() -> None:
    text = "pedantic mode: origin stream has direct get set, mirror has it disabled"
    origin = stream("O", allow_direct=True)
    assert check(stream("S", mirror={"name": "O"}), origin, pedantic=True) == text
    agreeing = stream("S", mirror={"name": "O"}, mirror_direct=True)
    assert check(agreeing, origin, pedantic=True) == ""
    assert check(agreeing, stream("O"), pedantic=True) == text
