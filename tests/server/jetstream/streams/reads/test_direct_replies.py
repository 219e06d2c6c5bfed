"""The way of answers to direct gets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jetstream_server.jetstream.streams.reads.direct_replies import DirectReplies

HEADERS = b"NATS/1.0\r\n\r\n"


class Recorded:
    """An output that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def publish(self, subject: bytes, payload: bytes, *, headers: bytes = b"") -> None:
        self.sent.append((subject, headers, payload))

    def frames(self, subscription: Any, data: bytes, count: int) -> None:
        self.sent.append((subscription.sid, data, count))

    def owe(self, answers: Any, size: int) -> None:
        if answers is not None:
            answers.owed.append(size)


def target(*, headers: bool = True, max_messages: int = 0, is_filtered: bool = False) -> Any:
    return SimpleNamespace(
        sid=b"7",
        outlet=SimpleNamespace(headers=headers),
        max_messages=max_messages,
        is_filtered=is_filtered,
    )


def replied(to: Any) -> list[Any]:
    output: Any = Recorded()
    replies = DirectReplies(output, to, None)
    replies.add(b"r.1", HEADERS, b"one")
    replies.add(b"r.2", b"", b"")
    replies.send()
    return output.sent


def test_frames_for_one_client_leave_together() -> None:
    frames = b"HMSG r.1 7 12 15\r\n" + HEADERS + b"one\r\nMSG r.2 7 0\r\n\r\n"
    assert replied(target()) == [(b"7", frames, 2)]
    frames = b"MSG r.1 7 3\r\none\r\nMSG r.2 7 0\r\n\r\n"
    assert replied(target(headers=False)) == [(b"7", frames, 2)]


@pytest.mark.parametrize(
    "to",
    [
        None,
        target(max_messages=1),
        target(is_filtered=True),
        SimpleNamespace(outlet=None, max_messages=0),
    ],
)
def test_the_router_takes_the_others(to: Any) -> None:
    assert replied(to) == [(b"r.1", HEADERS, b"one"), (b"r.2", b"", b"")]


def test_encoded_frames_count() -> None:
    output: Any = Recorded()
    replies = DirectReplies(output, target(), None)
    assert replies.has_headers
    replies.add_frames(b"two frames", 2)
    replies.add(b"r", b"", b"")
    replies.send()
    assert output.sent == [(b"7", b"two framesMSG r 7 0\r\n\r\n", 3)]
    replies = DirectReplies(output, target(headers=False), None)
    assert not replies.has_headers
    replies.send()
    assert len(output.sent) == 1, "nothing was added"


@pytest.mark.parametrize("to", [None, target()])
def test_what_is_under_way_counts_until_there_is_no_room(to: Any) -> None:
    answers: Any = SimpleNamespace(room_bytes=20, owed=[])
    output: Any = Recorded()
    replies = DirectReplies(output, to, answers)
    assert replies.room_bytes == 20
    replies.add(b"r", HEADERS, b"one")
    assert replies.room_bytes == 20 - len(HEADERS) - 3
    replies.add(b"r", b"", b"more than there is room for")
    assert replies.room_bytes == 0
    replies.send()
    assert answers.owed == [len(HEADERS) + 3 + 27]
    DirectReplies(output, to, answers).send()
    assert len(answers.owed) == 1, "nothing was added"
