"""The header that tells where a sourced message comes from; texts recorded from 2.15.1."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.jetstream.configs.stream_config import OriginConfig
from jetstream_server.jetstream.origins.source_header import (
    SourcePosition,
    SourceStamp,
    parse_source,
    source_key,
)


def source(**fields: Any) -> OriginConfig:
    return OriginConfig.model_validate({"name": "O", **fields})


TRANSFORMS = [{"src": "o.*", "dest": "z.$1"}, {"src": "q.*", "dest": ""}]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, b"Nats-Stream-Source: O 2 > > o.b IwUusQTe\r\n"),
        ({"filter_subject": "o.b"}, b"Nats-Stream-Source: O 2 o.b > o.b IwUusQTe\r\n"),
        (
            {"subject_transforms": TRANSFORMS},
            b"Nats-Stream-Source: O 2 o.*\x0cq.* z.$1\x0c> o.b IwUusQTe\r\n",
        ),
        (
            {"consumer": {"name": "D", "deliver_subject": "d"}},
            b"Nats-Stream-Source: O:C=1vR9AhxX 2 > > o.b IwUusQTe\r\n",
        ),
    ],
)
def test_lines_and_what_they_say(fields: dict[str, Any], line: bytes) -> None:
    config = source(**fields)
    assert SourceStamp(source_key(config)).line(2, b"o.b", b"IwUusQTe") == line
    value = line.removeprefix(b"Nats-Stream-Source: ").removesuffix(b"\r\n")
    assert parse_source(value) == SourcePosition(source_key(config), 2, "IwUusQTe")


def test_an_origin_that_has_no_identity() -> None:
    line = SourceStamp(source_key(source())).line(7, b"o.b", b"")
    assert line == b"Nats-Stream-Source: O 7 > > o.b\r\n"
    assert parse_source(b"O 7 > > o.b") == SourcePosition("O > >", 7, "")


def test_sources_of_one_stream_are_told_apart() -> None:
    keys = {
        source_key(source(**fields))
        for fields in (
            {},
            {"filter_subject": "a"},
            {"subject_transforms": TRANSFORMS},
            {"external": {"api": "x", "deliver": "y"}},
            {"external": {"api": "z", "deliver": "y"}},
            {"consumer": {"name": "D", "deliver_subject": "d"}},
        )
    }
    assert len(keys) == 6
    assert source_key(source(opt_start_seq=5)) == source_key(source())


@pytest.mark.parametrize("value", [b"", b"O", b"O x > > s id", b"O 1 > > s id more", b"O -1 > > s"])
def test_what_is_no_such_header(value: bytes) -> None:
    assert parse_source(value) is None


@pytest.mark.parametrize("digits", ["9" * 5000, "\u00b2", "-1", "1_0", str(2**63), ""])
def test_a_sequence_that_is_none(digits: str) -> None:
    assert parse_source(f"O {digits} > > x".encode()) is None
