"""PubRun: the messages of a run are read back out of its chunk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.protocol.ops import STRIDE, PubRun

TEXTS = st.binary(max_size=8)
MESSAGES = st.lists(st.tuples(TEXTS, TEXTS, TEXTS, TEXTS), max_size=6)


def messages_of(run: PubRun) -> list[tuple[bytes, bytes, bytes, bytes]]:
    return [
        (run.subject(i), run.reply(i), run.headers(i), run.payload(i)) for i in range(run.count)
    ]


@given(MESSAGES)
def test_a_run_gives_back_its_messages(messages: list[tuple[bytes, bytes, bytes, bytes]]) -> None:
    run = PubRun.of(messages)
    assert run.count == len(messages)
    assert messages_of(run) == messages
    assert [run.size(i) for i in range(run.count)] == [sum(map(len, each)) for each in messages]


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_a_single_message_is_a_run_of_one(
    subject: bytes, reply: bytes, headers: bytes, payload: bytes
) -> None:
    run = PubRun.single(subject, reply, headers, payload)
    assert messages_of(run) == [(subject, reply, headers, payload)]
    assert len(run.fields) == STRIDE
    assert run.fields.typecode == PubRun.of([]).fields.typecode == "i"
