"""What is long is read in pieces, and means the same as read in one go."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest
from jetstream_server.core.steps import without_pauses
from jetstream_server.jetstream.snapshots import long_json
from jetstream_server.jetstream.snapshots.long_json import LongPart

PENDING = LongPart(b"pending", (b"{", b"}"), b"}", b',"')
COUNTS = LongPart(b"redelivered", (b"{", b"}"), b"", b',"')
LIST = LongPart(b"sequences", (b"[", b"]"), b"", b",")


def made(random: Random) -> dict[str, Any]:
    count = random.choice((0, 1, 2, 300))
    state = {
        "delivered": {"consumer_seq": 9, "stream_seq": 8},
        "pending": {str(n * 7): {"Sequence": n, "Timestamp": n * 1000} for n in range(count)},
        "redelivered": {str(n * 7): n for n in range(0, count, 2)},
    }
    text = '"pending":{"1":{"Sequence":1}}'
    config = {"name": "C", "description": text, "metadata": {text: text}}
    left = {"sequences": list(range(count)), "live": 7}
    return {"config": config, "state": state, "last_per_subject": left, "created_ns": 5}


@pytest.mark.parametrize("seed", range(30))
def test_it_means_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(long_json, "PIECE_BYTES", random.choice((1, 40, 1000)))
    whole = made(random)
    text = orjson.dumps(whole)
    steps: list[int] = []
    found = []
    for part in (PENDING, COUNTS, LIST):
        reading = part.take_out(text)
        steps.append(0)
        try:
            while True:
                next(reading)
                steps[-1] += 1
        except StopIteration as end:
            text, pieces = end.value
            found.append(pieces)
    rest = orjson.loads(text)
    assert {key: n for piece in found[0] for key, n in piece.items()} == whole["state"]["pending"]
    assert {k: n for piece in found[1] for k, n in piece.items()} == whole["state"]["redelivered"]
    assert [each for piece in found[2] for each in piece] == whole["last_per_subject"]["sequences"]
    whole["state"] |= {"pending": {}, "redelivered": {}}
    whole["last_per_subject"]["sequences"] = []
    assert rest == whole
    assert steps == [len(pieces) for pieces in found]


@pytest.mark.parametrize(
    "text",
    [b'{"pending":{"1":{"a"}}}', b'{"pending":{"1":{}},"x', b'{"pending":{x}}', b'{"pending":{'],
)
def test_what_is_no_json_is_refused_or_left(text: bytes) -> None:
    try:
        left, pieces = without_pauses(PENDING.take_out(text))
    except ValueError:
        return
    assert (left == text and not pieces) or pieces == [{"1": {}}]
