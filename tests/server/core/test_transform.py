"""Transforms against `transform_vectors.json`, recorded from nats-server 2.15.1.

Each vector is a source and a destination with either the refusal (without `stream transform: `)
or what became of some subjects; null is a subject that does not match.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.core.subject import matches
from jetstream_server.core.transform import Transform, TransformError, asked_transform, fnv1a_32

VECTORS = json.loads((Path(__file__).parent / "transform_vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['source']} to {v['destination']}")
def test_as_the_genuine_server(vector: dict[str, Any]) -> None:
    source, destination = vector["source"].encode(), vector["destination"].encode()
    if "error" in vector:
        with pytest.raises(TransformError) as refusal:
            Transform(source, destination)
        assert str(refusal.value) == vector["error"]
        return
    transform = Transform(source, destination)
    for subject, expected in vector["subjects"].items():
        made = transform.apply(subject.encode(), Random(1))
        assert (made and made.decode()) == expected, subject


def test_random_is_within_its_bound_and_repeats_with_its_seed() -> None:
    transform = Transform(b"a.*", b"b.{{random(5)}}")
    draws = [transform.apply(b"a.x", Random(seed)) for seed in range(50)]
    assert set(draws) == {b"b.%d" % n for n in range(5)}
    assert draws == [transform.apply(b"a.x", Random(seed)) for seed in range(50)]
    negative = Transform(b"a.*", b"b.{{random(-5)}}")
    assert {negative.apply(b"a.x", Random(seed)) for seed in range(50)} == set(draws)


def test_split_by_nothing_keeps_characters_whole() -> None:
    transform = Transform(b"a.*", b"b.{{split(1,)}}")
    assert transform.apply("a.éx".encode(), Random(1)) == "b.é.x".encode()
    assert transform.apply(b"a.\xffx", Random(1)) == b"b.\xff.x"


def test_hash() -> None:
    assert fnv1a_32(b"") == 0x811C9DC5
    assert fnv1a_32(b"foobar") == 0xBF9CF968


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_any_bytes_make_a_transform_or_a_refusal(source: bytes, destination: bytes) -> None:
    try:
        transform = Transform(source, destination)
    except TransformError:
        return
    assert (transform.apply(b"a.b", Random(1)) is not None) == matches(transform.source, b"a.b")


def test_what_each_message_would_pay_for_is_bounded() -> None:
    source = b".".join([b"*"] * 80)
    uses = [
        b"{{partition(9,%b)}}" % b",".join(b"%d" % n for n in range(1, count + 1))
        for count in (64, 65)
    ]
    too_large = [
        (source, uses[1], "uses more than 64 tokens"),
        (source, b".".join([b"$1"] * 65), "uses more than 64 tokens"),
        (b"a", b"x." * 2047 + b"xyz", "longer than 4096 bytes"),
        (b"a" * (1 << 16) + b"b", b"x", "invalid subject"),
    ]
    asked_transform(source, uses[0])
    asked_transform(b"a", b"x." * 2047 + b"xy")
    asked_transform(b"a" * (1 << 16), b"x")
    for pattern, destination, text in too_large:
        with pytest.raises(TransformError, match=text):
            asked_transform(pattern, destination)
        # One that is kept already is not refused.
        assert Transform(pattern, destination).apply(pattern.replace(b"*", b"t"), Random(1))


def test_what_stands_for_itself_stands_together() -> None:
    transform = Transform(b"a.*.>", b"x.y.{{wildcard(1)}}.z.$x.>")
    assert transform.apply(b"a.b.c.d", Random(1)) == b"x.y.b.z.$x.c.d"
    assert Transform(b"a.*", b"x.y").apply(b"a.b", Random(1)) == b"x.y"
