"""A consumer in an archive: everything comes back; what contradicts itself is refused."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.core.steps import without_pauses
from jetstream_server.jetstream.configs.consumer_config import ConsumerBounds
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.consumers.progress.consumer_state import encode_state
from jetstream_server.jetstream.snapshots.archive import ArchiveError
from jetstream_server.jetstream.snapshots.consumer_copy import ConsumerCopy
from jetstream_server.jetstream.snapshots.consumer_snapshot import ConsumerRecord, decode_consumer

from tests.traced_lines import lines_of

BOUNDS = ConsumerBounds()
CONFIG = {"durable_name": "C", "name": "C", "ack_policy": "explicit"}


def decoded(name: str, payload: bytes, config: Any, bounds: ConsumerBounds) -> ConsumerRecord:
    return without_pauses(decode_consumer(name, payload, config, bounds))


def consumer(transfers: Any, **config: Any) -> Consumer:
    stream = transfers.stream(count=9)
    body = {"stream_name": "S", "config": CONFIG | config}
    transfers.ask("CONSUMER.DURABLE.CREATE.S.C", body)
    found = stream.consumers["C"]
    assert isinstance(found, Consumer)
    return found


def pull(transfers: Any, count: int) -> list[bytes]:
    listener = transfers.listen(b"pulled")
    body = b'{"batch":%d,"no_wait":true}' % count
    transfers.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", body, b"pulled")
    transfers.turn()
    return [reply for _, reply, _, _ in listener.received if reply]


def encoded(source: Any) -> bytes:
    return b"".join(ConsumerCopy(source).pieces())


def test_progress_comes_back(transfers) -> None:
    source = consumer(transfers)
    acks = pull(transfers, 6)
    assert len(acks) == 6
    transfers.publish(acks[0])
    transfers.publish(acks[2])
    transfers.publish(acks[3], b"-NAK")
    transfers.turn()
    assert len(pull(transfers, 1)) == 1
    record = decoded("C", encoded(source), source.stream.config, BOUNDS)
    assert (record.name, record.config, record.created) == ("C", source.config, source.created)
    progress = without_pauses(record.progress(source.stream.store))
    assert list(progress.pending) == list(source.progress.pending)
    assert progress.redelivery.counts.columns() == (array("Q", [4]), array("Q", [1]))
    assert source.progress.redelivery.counts.columns() == progress.redelivery.counts.columns()
    # The first two left wait for their acks as before, so does what was redelivered last.
    assert progress.redelivery.queued == 0
    assert progress.next_deadline() == source.progress.next_deadline()
    for name in ("consumer_seq", "stream_seq", "floor_consumer_seq", "floor_stream_seq"):
        assert getattr(progress, name) == getattr(source.progress, name)
    assert progress.cursor.next_seq == source.progress.cursor.next_seq


def test_none_that_delivers_where_only_the_server_speaks(transfers) -> None:
    source = consumer(transfers)
    payload = encoded(source).replace(b'"name":"C"', b'"name":"C","deliver_subject":"$JS.S.x"', 1)
    assert b"$JS.S.x" in payload
    with pytest.raises(ArchiveError, match=r"invalid push consumer deliver subject \(10112\)"):
        decoded("C", payload, source.stream.config, BOUNDS)


def test_what_is_left_of_last_per_subject_comes_back(transfers) -> None:
    source = consumer(transfers, deliver_policy="last_per_subject", filter_subject="s.*")
    record = decoded("C", encoded(source), source.stream.config, BOUNDS)
    progress = without_pauses(record.progress(source.stream.store))
    assert list(progress.cursor.snapshot) == [7, 8, 9]
    assert progress.cursor.num_pending() == 3


def record(state: Any, **config: Any) -> bytes:
    return json.dumps({"config": CONFIG | config, "state": state}).encode()


def position(consumer_seq: int, stream_seq: int) -> dict[str, int]:
    return {"consumer_seq": consumer_seq, "stream_seq": stream_seq}


def test_what_the_genuine_server_writes_is_read(transfers) -> None:
    stream = transfers.stream(count=9)
    state = {
        "delivered": position(3, 2),
        "ack_floor": position(1, 0),
        "pending": {
            "1": {"Sequence": 3, "Timestamp": 5},
            "2": {"Sequence": 2, "Timestamp": 5},
        },
        "redelivered": {"1": 1},
    }
    found = decoded("C", record(state, more=1), stream.config, BOUNDS)
    progress = without_pauses(found.progress(stream.store))
    # A message delivered anew there keeps the lower consumer sequence here.
    assert list(progress.pending) == [(1, 1), (2, 2)]
    assert progress.pending.sent_at(1) == 5
    assert found.created == 0
    assert progress.cursor.num_pending() == 7


def test_what_was_put_off_for_less_than_a_very_long_ack_wait_comes_back(transfers) -> None:
    source = consumer(transfers, ack_wait=2**63 - 1)
    acks = pull(transfers, 2)
    transfers.publish(acks[0], b'-NAK {"delay": 1000000000}')
    transfers.turn()
    assert source.progress.next_deadline() == transfers.now + SECOND
    found = decoded("C", encoded(source), source.stream.config, BOUNDS)
    progress = without_pauses(found.progress(source.stream.store))
    assert progress.next_deadline() == source.progress.next_deadline()
    assert progress.redelivery.deadlines.columns()[0] == array("Q", [1, 2])
    assert encode_state(progress)


@pytest.mark.parametrize(
    ("sent_at", "ack_wait", "deadline"),
    [
        (2**63 - 1, 2**63 - 1, 2**62 + 2**63 - 1 + MILLISECOND),
        (2**63 - 1, SECOND, 2**62 + SECOND + MILLISECOND),
        (-(2**63), SECOND, 1),
        (-1, SECOND, SECOND + MILLISECOND - 1),
    ],
)
def test_no_time_is_beyond_what_is_kept(
    transfers, sent_at: int, ack_wait: int, deadline: int
) -> None:
    stream = transfers.stream(count=9)
    state = {
        "delivered": position(2, 2),
        "ack_floor": position(0, 0),
        "pending": {"1": {"Sequence": 1, "Timestamp": sent_at}},
    }
    found = decoded("C", record(state, ack_wait=ack_wait), stream.config, BOUNDS)
    progress = without_pauses(found.progress(stream.store))
    assert progress.next_deadline() == deadline
    assert encode_state(progress)


@pytest.mark.parametrize("state", [None, {}])
def test_without_state_it_starts_at_the_beginning(transfers, state: Any) -> None:
    stream = transfers.stream(count=9)
    found = decoded("C", record(state), stream.config, BOUNDS)
    assert without_pauses(found.progress(stream.store)).cursor.num_pending() == 9


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (
            b"{nope",
            'failed to decode consumer "C" state: '
            "invalid character 'n' looking for beginning of object key string",
        ),
        (b"{}", 'consumer "C" is missing config'),
        (b"null", 'consumer "C" is missing config'),
        (b"[1]", 'consumer "C" is missing config'),
        (
            record({}, filter_subject="a..b"),
            'failed to add consumer "C": invalid subject (10052)',
        ),
        (
            record({"delivered": position(1, 1), "ack_floor": position(2, 2)}),
            'failed to set consumer "C" state: bad ack floor for consumer',
        ),
        (
            record(
                {
                    "delivered": position(2, 2),
                    "ack_floor": position(1, 1),
                    "pending": {"1": {"Sequence": 1, "Timestamp": 1}},
                }
            ),
            'failed to set consumer "C" state: bad pending entry, sequence [1] out of range',
        ),
        (record({"delivered": position(-1, 1)}), 'failed to decode consumer "C" state: '),
        (record({"pending": {"x": 1}}), 'failed to decode consumer "C" state: '),
        (record({"pending": [1]}), 'failed to decode consumer "C" state: '),
        (record([]) + b"?", 'failed to decode consumer "C" state: '),
        (record({}, ack_policy="nope"), 'failed to decode consumer "C" state: can not unmarshal'),
    ],
)
def test_what_can_not_be_read_is_refused(transfers, payload: bytes, text: str) -> None:
    stream = transfers.stream()
    with pytest.raises(ArchiveError) as caught:
        decoded("C", payload, stream.config, BOUNDS)
    assert str(caught.value).startswith(text)


def test_very_many_messages_are_read_some_at_a_time(transfers: Any) -> None:
    """50,000 of each of four consumers kept others waiting for two seconds."""
    stream = transfers.stream(count=9)
    sequences = sorted(range(1, 6001), key=str)  # as the genuine server writes them
    state = {
        "delivered": position(9000, 6000),
        "ack_floor": position(0, 0),
        "pending": {str(n): {"Sequence": n + 5, "Timestamp": 10 + n // 9} for n in sequences},
        "redelivered": {str(n): 2 for n in sequences[::3]},
    }
    payload = json.dumps({"config": CONFIG, "state": state}, separators=(",", ":")).encode()
    assert len(payload) > 64 * 1024
    found: list[Any] = []

    def step(steps: Any) -> bool:
        try:
            next(steps)
        except StopIteration as end:
            found.append(end.value)
        return bool(found)

    steps = decode_consumer("C", payload, stream.config, BOUNDS)
    while not found:
        assert lines_of(lambda: step(steps)) < 20_000
    steps = found.pop().progress(stream.store)
    while not found:
        assert lines_of(lambda: step(steps)) < 25_000
    progress = found[0]
    assert list(progress.pending) == [(n, n + 5) for n in range(1, 6001)]
    assert progress.pending.sent_at(5000) == 10 + 5000 // 9
    counts = dict(zip(*progress.redelivery.counts.columns(), strict=True))
    assert counts == dict.fromkeys(sequences[::3], 2)


def test_what_is_too_large_to_be_read_in_one_go_is_refused(transfers: Any) -> None:
    stream = transfers.stream(count=9)
    config = CONFIG | {"metadata": {"k": "x" * (1 << 20)}}
    payload = json.dumps({"config": config, "state": {}}).encode()
    with pytest.raises(ArchiveError, match='consumer "C" is too large'):
        decoded("C", payload, stream.config, BOUNDS)


def test_very_many_filters_are_compared_some_at_a_time(transfers: Any) -> None:
    """50,000 took 120 ms."""
    source = consumer(transfers)
    payload = json.loads(encoded(source))
    payload["config"]["filter_subjects"] = [f"s.*.{number}" for number in range(20_000)]
    steps = decode_consumer("C", json.dumps(payload).encode(), source.stream.config, BOUNDS)
    lines: list[int] = []
    record: list[ConsumerRecord] = []

    def step() -> None:
        try:
            next(steps)
        except StopIteration as end:
            record.append(end.value)

    while not record:
        lines.append(lines_of(step))
    assert len(lines) > 20 and max(lines) < 100_000
    making, lines = record[0].progress(source.stream.store), []
    progress: list[Any] = []

    def make() -> None:
        try:
            next(making)
        except StopIteration as end:
            progress.append(end.value)

    while not progress:
        lines.append(lines_of(make))
    assert len(lines) > 20 and max(lines) < 100_000
    asked = lines_of(lambda: progress[0].cursor.wants(b"s.x.19999"))
    assert progress[0].cursor.wants(b"s.x.19999") and asked < 100
