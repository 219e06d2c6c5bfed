"""Counters: sums of any size, and what is not an increment."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture
def counters(bench: Any) -> Any:
    return bench.stream(allow_msg_counter=True)


def add(bench: Any, stream: Any, amount: object, subject: bytes = b"s.a", *more: str) -> Any:
    return bench.publish(stream, subject, b"", f"Nats-Incr: {amount}", *more)


def test_each_subject_counts_for_itself(bench: Any, counters: Any) -> None:
    assert add(bench, counters, 2) == {"stream": "S", "seq": 1, "val": "2"}
    assert add(bench, counters, "+40")["val"] == "42"
    assert add(bench, counters, "-7", b"s.b")["val"] == "-7"
    assert add(bench, counters, "007")["val"] == "49"
    assert counters.store.load(2).payload == b'{"val":"42"}'
    assert counters.store.load(2).headers == b"NATS/1.0\r\nNats-Incr: +40\r\n\r\n"


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(amounts=st.lists(st.integers(-(10**80), 10**80), min_size=1, max_size=5))
def test_sums_are_exact(bench: Any, amounts: list[int]) -> None:
    stream = bench.stream(allow_msg_counter=True)
    answers = [add(bench, stream, amount)["val"] for amount in amounts]
    assert answers == [str(sum(amounts[: n + 1])) for n in range(len(amounts))]


def test_more_digits_than_int_reads(bench: Any, counters: Any) -> None:
    assert add(bench, counters, "9" * 30_000)["val"] == "9" * 30_000
    assert add(bench, counters, 1)["val"] == "1" + "0" * 30_000


@pytest.mark.parametrize("amount", ["zz", "0x10", "1_0", "++1", "1.5", "-", "1 ", "１"])
def test_what_is_no_increment(bench: Any, counters: Any, amount: str) -> None:
    assert add(bench, counters, amount)["error"]["err_code"] == 10171
    assert counters.store.last_seq == 0


@pytest.mark.parametrize(
    "line",
    ["Nats-Rollup: sub", "Nats-Expected-Stream: S", "Nats-Expected-Last-Subject-Sequence: 0"],
)
def test_no_conditions_on_a_sum(bench: Any, counters: Any, line: str) -> None:
    assert add(bench, counters, 1, b"s.a", line)["error"]["err_code"] == 10171


def test_refusals(bench: Any, counters: Any) -> None:
    assert bench.publish(counters)["error"]["err_code"] == 10169
    assert bench.publish(counters, b"s.a", b"x", "Nats-Incr: 1")["error"]["err_code"] == 10170
    plain = bench.stream(name="P", subjects=["p"])
    assert bench.publish(plain, b"p", b"", "Nats-Incr: 1")["error"]["err_code"] == 10168


def test_a_duplicate_adds_nothing(bench: Any, counters: Any) -> None:
    add(bench, counters, 5, b"s.a", "Nats-Msg-Id: m")
    again = add(bench, counters, 5, b"s.a", "Nats-Msg-Id: m")
    assert again == {"stream": "S", "seq": 1, "duplicate": True}
    assert add(bench, counters, 1)["val"] == "6"


def test_sources_are_handed_on_and_a_broken_total_is_not_added_to(
    bench: Any, counters: Any
) -> None:
    add(bench, counters, 1, b"s.a", 'Nats-Counter-Sources: {"T":{"t":"1"}}')
    add(bench, counters, 1)
    assert b'Nats-Counter-Sources: {"T":{"t":"1"}}\r\n' in counters.store.load(2).headers
    add(bench, counters, 1, b"s.b", "Nats-Counter-Sources: zz")
    assert add(bench, counters, 1, b"s.b")["error"]["err_code"] == 10172
    for broken in (b"", b"[]", b'{"val":1}', b'{"val":"x"}', b"\xff"):
        counters.store.append(b"s.c", b"", broken, bench.now)
        assert add(bench, counters, 1, b"s.c")["error"]["err_code"] == 10172


def test_increments_of_a_batch_add_up_and_count_when_it_is_committed(bench: Any) -> None:
    stream = bench.stream(allow_msg_counter=True, allow_atomic=True)
    add(bench, stream, 10)
    for at, (amount, subject) in enumerate([(1, b"s.a"), (2, b"s.b"), (4, b"s.a"), (8, b"s.a")], 1):
        commit = ["Nats-Batch-Commit: 1"] if at == 4 else []
        lines = ["Nats-Batch-Id: b", f"Nats-Batch-Sequence: {at}", *commit]
        bench.publish_all(stream, [(subject, b"", [f"Nats-Incr: {amount}", *lines])])
        assert stream.store.last_seq == (5 if commit else 1)
    totals = [stream.store.load(sequence).payload for sequence in range(1, 6)]
    assert totals == [b'{"val":"%d"}' % total for total in (10, 11, 2, 15, 23)]
    assert add(bench, stream, 1)["val"] == "24"


def test_counters_of_a_batch_that_are_too_large_for_one_turn(bench: Any) -> None:
    """A batch is committed in one turn, and each of a thousand increments reads all of a total."""
    stream = bench.stream(allow_msg_counter=True, allow_atomic=True)
    add(bench, stream, "7" * 60_000)

    workload = bench.context.workload
    used = []

    def commit(count: int) -> Any:
        for at in range(1, count + 1):
            ends = ["Nats-Batch-Commit: 1"] if at == count else []
            lines = ["Nats-Incr: 1", "Nats-Batch-Id: b", f"Nats-Batch-Sequence: {at}", *ends]
            before = workload.used
            (answer,) = bench.publish_all(stream, [(b"s.a", b"", lines)])
        used.append(workload.used - before)
        return json.loads(answer)

    assert commit(15)["seq"] == 16
    refused = commit(1000)["error"]
    assert refused["err_code"] == 10077 and "too large" in refused["description"]
    assert used[-1] < 400 and stream.store.last_seq == 16
    assert commit(15)["seq"] == 31


@pytest.mark.parametrize("of", ["sources", "digits"])
def test_what_is_stored_is_work_for_the_next_increment(bench: Any, counters: Any, of: str) -> None:
    """An increment of 60 bytes reads all that is stored; 60 of them came in a turn."""
    workload, large = bench.context.workload, b"s.large"
    if of == "sources":
        sources = ",".join(f'"{number:x}":{{}}' for number in range(6000))
        add(bench, counters, 1, large, f"Nats-Counter-Sources: {{{sources}}}")
    else:
        add(bench, counters, "7" * 60_000, large)
    add(bench, counters, 1, b"s.small")
    used = []
    for subject in (b"s.small", large):
        before = workload.used
        assert "error" not in add(bench, counters, 1, subject)
        used.append(workload.used - before)
    assert used[0] < 2
    assert used[1] > 12


def test_what_cannot_be_read_is_work_too(bench: Any, counters: Any) -> None:
    lists = ",".join("[]" for _ in range(20_000))
    add(bench, counters, 1, b"s.a", f'Nats-Counter-Sources: {{"a":[{lists}]}}')
    workload = bench.context.workload
    before = workload.used
    assert add(bench, counters, 1)["error"]["err_code"] == 10172
    assert workload.used - before > 12
