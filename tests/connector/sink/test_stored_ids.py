"""Ids read back from a stream, against the genuine server."""

from __future__ import annotations

import pytest

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.operation import Transfer
from jetstream_spark.sink import stored_ids
from jetstream_spark.sink.stored_ids import read_stored_ids
from tests.put_back import Place

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
    assert run(read_stored_ids(*read, 2, b"t-")).ids == {b"t-1": 2, b"t-2": 4, b"t-3": 6}
    assert set(run(read_stored_ids(*read, 1, b"")).ids) == {
        b"t-0", b"t-1", b"other", b"t-2", b"t-3"
    }  # fmt: skip
    assert run(read_stored_ids(*read, 0, b"t-", f"{stream.subject}.b")).ids == {b"t-3": 6}
    assert run(read_stored_ids(*read, 7, b"")).ids == {}


@pytest.mark.parametrize("line", [b"NATS/1.1 404 x", b"NATS/1.1 503", b"12345678408"])
def test_what_looks_like_a_status_is_a_message(stream, line) -> None:
    """Who took it for the end would write what follows twice."""
    fill(stream, ["t-0"])
    stream.control.request_message(f"{stream.subject}.a", b"x", line + b"\r\n\r\n")
    fill(stream, ["t-1"])
    found = run(read_stored_ids(stream.control.inner, stream.name, 1, b"t-")).ids
    assert found == {b"t-0": 1, b"t-1": 3}


def test_a_row_that_was_stored_again_has_its_own_id(stream) -> None:
    fill(stream, ["t-0", "t-1", "t-1.again2", "own.again9"])
    read = stream.control.inner, stream.name
    assert run(read_stored_ids(*read, 1, b"t-")).ids == {b"t-0": 1, b"t-1": 3}
    assert b"own.again9" in run(read_stored_ids(*read, 1, b"")).ids  # it may be a user's


def test_many_pulls_are_one_answer(stream, monkeypatch) -> None:
    monkeypatch.setattr(stored_ids, "PULL_MESSAGES", 7)
    ids = [f"id{n}" for n in range(40)]
    fill(stream, ids)
    found = run(read_stored_ids(stream.control.inner, stream.name, 1, b"id")).ids
    assert set(found) == {one.encode() for one in ids}


def test_nothing_is_left_behind(stream) -> None:
    fill(stream, ["a"])
    run(read_stored_ids(stream.control.inner, stream.name, 1, b""))
    assert stream.control.consumers(stream.name) == []
    assert stream.count == 1


def lost_at(operation, cut: int, cuts: list[int]):
    """The same operation, whose connection breaks at one of its transfers."""
    effect, transfers, outcome = next(operation), 0, None
    while True:
        try:
            if isinstance(effect, Transfer):
                transfers += 1
                if transfers == cut:
                    cuts.append(cut)
                    effect.link.close()
                    raise ConnectionResetError("cut by the test")
            outcome = yield effect
        except OSError as error:
            effect = operation.throw(error)
        except StopIteration as end:
            return end.value
        else:
            try:
                effect = operation.send(outcome)
            except StopIteration as end:
                return end.value


def test_a_lost_connection_costs_a_second_look(stream, monkeypatch) -> None:
    """Wherever it breaks, the ids are all of them; before, the attempt ended there."""
    monkeypatch.setattr(stored_ids, "PULL_MESSAGES", 3)
    monkeypatch.setattr("jetstream_spark.client.patience.PAUSE_S", 0.001)
    ids = [f"id{n}" for n in range(8)]
    fill(stream, ids)
    cut, cuts = 1, []
    while len(cuts) == cut - 1:
        found = run(
            lost_at(read_stored_ids(stream.control.inner, stream.name, 1, b"id"), cut, cuts)
        )
        assert set(found.ids) == {one.encode() for one in ids}, f"cut at transfer {cut}"
        cut += 1
    assert cut > 8, "a transfer for each request and each answer at least"


def test_a_replica_that_lags_is_asked_again(stream, lagging_replica) -> None:
    fill(stream, ["t-0", "t-1"])
    read = stream.control.inner, stream.name
    assert run(read_stored_ids(*read, 1, b"t-")).ids == {b"t-0": 1, b"t-1": 2}
    assert len(lagging_replica) == 3
    assert run(read_stored_ids(*read, 1, b"t-", f"{stream.subject}.none")).ids == {}


@pytest.mark.parametrize("kind", ["genuine", "bundled"])
def test_what_a_server_said_before_it_was_started_again_is_not_believed(
    kind, make_stream, tmp_path, request, monkeypatch
) -> None:
    """It may have been given older files, and what it says now is not what it had said."""
    place = Place(kind, tmp_path, request.getfixturevalue)
    try:
        stream = make_stream(place.url)
        fill(stream, ["t-0"])
        place.take_copy()
        fill(stream, ["t-1", "t-2"])
        control, walks = stream.control.inner, []
        go_on = stored_ids._HeaderWalk.go_on

        def restarted(walk):
            yield from go_on(walk)
            walks.append((control.server_id, list(walk.ids)))
            if len(walks) == 1:
                place.put_back()
                yield from control.stream_state(stream.name)

        monkeypatch.setattr(stored_ids._HeaderWalk, "go_on", restarted)
        found = run(read_stored_ids(control, stream.name, 1, b"t-"))
        assert [ids for _, ids in walks] == [[b"t-0", b"t-1", b"t-2"], [b"t-0"]]
        assert found.ids == {b"t-0": 1} and found.server_id == walks[1][0] != walks[0][0]
    finally:
        place.stop()
        pool.close_all(this_host())
