"""What orjson has read, seen as the precise reader sees it."""

from __future__ import annotations

import json
from random import Random

import orjson
import pytest
from jetstream_server.jetstream.wire.json_syntax import DEPTH_MAX, JsonNode, parse_values
from jetstream_server.jetstream.wire.json_value import ReadValue, has_single_keys


def a_value(random: Random, depth: int = 0) -> str:
    kind = random.randrange(7 if depth < 4 else 5)
    if kind < 5:
        return random.choice(['"a"', '":"', "1", "-2.5", "true", "null", '"\\u003e:"', '"\\""'])
    parts = [a_value(random, depth + 1) for _ in range(random.randrange(3))]
    if kind == 5:
        return f"[{', '.join(parts)}]"
    keys = [random.choice(['"a"', '"b"', '"c:"', '"d"', '"e"']) for _ in parts]
    return "{" + ",".join(f"{key} :{part}" for key, part in zip(keys, parts, strict=True)) + "}"


def same(read: ReadValue, node: JsonNode) -> bool:
    if read.kind != node.kind:
        return False
    if node.kind == "object":
        pairs = zip(read.value, node.value, strict=True)
        return all(a == b and same(x, y) for (a, x), (b, y) in pairs)
    if node.kind == "array":
        return all(same(a, b) for a, b in zip(read.value, node.value, strict=True))
    return bool(read.value == node.value)


@pytest.mark.parametrize("seed", range(300))
def test_members_that_got_lost_are_noticed(seed: int) -> None:
    text, is_single = a_value(Random(seed)), True

    def look(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal is_single
        is_single &= len(dict(pairs)) == len(pairs)
        return dict(pairs)

    json.loads(text, object_pairs_hook=look)
    assert has_single_keys(text.encode(), orjson.loads(text)) is is_single
    if is_single:
        (node,), _ = parse_values(text.encode())
        assert same(ReadValue(orjson.loads(text)), node)


@pytest.mark.parametrize("escape", ["\\u003a", "\\u003A", "\\\\u003a"])
def test_a_colon_that_may_be_escaped_is_not_judged(escape: str) -> None:
    text = f'{{"a{escape}":1}}'
    assert not has_single_keys(text.encode(), orjson.loads(text))


def test_what_is_too_deep_is_not_judged() -> None:
    for depth in (DEPTH_MAX + 1, DEPTH_MAX + 2):
        text = b"[" * depth + b"]" * depth
        _, broken = parse_values(text)
        assert has_single_keys(text, orjson.loads(text)) is (broken is None)


def test_a_value_as_it_was_sent() -> None:
    assert ReadValue({"a": [1, "x"]}).source == '{"a":[1,"x"]}'


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 0),
        ("null", 0),
        ("[]", 0),
        ("{}", 0),
        ('{"a":{"b":{}}}', 0),
        ('["a",1,2.5,true]', 0),
        ("[null]", 1),
        ("[{},{}]", 2),
        ('{"a":[{"b":[{},{},"x"]}],"c":{"d":[[]]}}', 5),
    ],
)
def test_objects_in_lists_are_counted(text: str, count: int) -> None:
    assert ReadValue(orjson.loads(text)).objects_in_lists() == count


def test_counting_ends_where_there_are_very_many() -> None:
    wide = ReadValue([{"a": [{}] * 100}] * 20_000)
    assert 10_000 < wide.objects_in_lists() <= 20_000


def test_of_very_many_objects_not_all_are_looked_at() -> None:
    """They are no elements of lists, so none counted, and looking at all took 25 ms."""
    few = {str(number): {"a": [1]} for number in range(1000)}
    assert ReadValue(few).objects_in_lists() == 0
    many = {str(number): {"a": {"b": 1}} for number in range(30_000)}
    assert ReadValue(many).objects_in_lists() == 10_001
