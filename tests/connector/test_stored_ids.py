"""Ids read back from a stream, against the genuine server."""

from __future__ import annotations

import pytest

from jetstream_spark import stored_ids
from jetstream_spark.client.blocking import run
from jetstream_spark.stored_ids import read_stored_ids

pytestmark = pytest.mark.genuine


def fill(stream, ids: list[str], subject: str = "a") -> None:
    for one in ids:
        headers = f"NATS/1.0\r\nNats-Msg-Id: {one}\r\n\r\n".encode()
        stream.control.request_message(f"{stream.subject}.{subject}", b"x" * 100, headers)


def test_ids_are_those_of_the_prefix_from_the_sequence_on(stream) -> None:
    fill(stream, ["t-0", "t-1", "other", "t-2"])
    stream.control.request_message(f"{stream.subject}.a", b"without headers")
    fill(stream, ["t-3"], "b")
    read = stream.control.inner, stream.name
    assert run(read_stored_ids(*read, 2, b"t-")) == {b"t-1", b"t-2", b"t-3"}
    assert run(read_stored_ids(*read, 1, b"")) == {b"t-0", b"t-1", b"other", b"t-2", b"t-3"}
    assert run(read_stored_ids(*read, 0, b"t-", f"{stream.subject}.b")) == {b"t-3"}
    assert run(read_stored_ids(*read, 7, b"")) == set()


def test_many_pulls_are_one_answer(stream, monkeypatch) -> None:
    monkeypatch.setattr(stored_ids, "PULL_MESSAGES", 7)
    ids = [f"id{n}" for n in range(40)]
    fill(stream, ids)
    found = run(read_stored_ids(stream.control.inner, stream.name, 1, b"id"))
    assert found == {one.encode() for one in ids}


def test_nothing_is_left_behind(stream) -> None:
    fill(stream, ["a"])
    run(read_stored_ids(stream.control.inner, stream.name, 1, b""))
    assert stream.control.consumers(stream.name) == []
    assert stream.count == 1
