"""Messages in pages: with gaps, of some subjects, large ones, by time; on both servers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_console.asking.errors import AskingError, RefusedError, UnreachableError
from jetstream_console.asking.messages import PAGE_BYTES, Message, MessageReader, read_message


def numbers(page) -> list[int]:
    return [message.sequence for message in page.messages]


class PlayedStream:
    """An API that has one stream, and counts what it is asked for."""

    payload_max = 1 << 20

    def __init__(self, sequences, last=None, size=1):
        self.sequences = sorted(sequences)
        self.last = last or max(self.sequences, default=0)
        self.size = size
        self.asked = 0
        self.under_way = self.most_bytes = 0

    async def ask(self, what, body=None):
        self.asked += 1
        if what.startswith("STREAM.INFO"):
            first = self.sequences[0] if self.sequences else self.last + 1
            return {"state": {"first_seq": first, "last_seq": self.last}}
        self.under_way += 1
        self.most_bytes = max(self.most_bytes, self.under_way * self.size)
        await asyncio.sleep(0)
        self.under_way -= 1
        found = next((each for each in self.sequences if each >= body["seq"]), None)
        if found is None:
            raise RefusedError("no message found", 404, 10037)
        data = "QUJD" * (self.size // 3)
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=found)
        return {"message": {"seq": found, "subject": "s", "data": data, "time": at.isoformat()}}


@given(
    st.sets(st.integers(1, 400), max_size=200),
    st.integers(1, 420),
    st.integers(1, 60),
    st.sampled_from([None, 50, 200, 401]),
)
def test_what_comes_after_is_all_of_it_in_order(sequences, start, size, until):
    async def work():
        reader = MessageReader(PlayedStream(sequences, 400), "S")
        page = await reader.after(start, count=size, until=until)
        there = [each for each in sorted(sequences) if each >= start and each < (until or 1000)]
        assert numbers(page) == there[:size]
        if len(there) > size:
            assert page.has_more and numbers(page)[-1] < page.end <= there[size]
        if not page.has_more:
            assert len(there) <= size

    asyncio.run(work())


@given(st.sets(st.integers(1, 400), max_size=200), st.integers(1, 420), st.integers(1, 60))
def test_what_comes_before_is_all_of_it_in_order(sequences, end, size):
    async def work():
        reader = MessageReader(PlayedStream(sequences, 400), "S")
        page = await reader.before(end, count=size)
        there = [each for each in sorted(sequences) if each < end]
        assert numbers(page) == there[-size:]
        if len(there) > size:
            assert page.has_more and there[-size - 1] < page.start <= numbers(page)[0]

    asyncio.run(work())


@given(st.sets(st.integers(1, 400), min_size=1, max_size=100), st.integers(0, 420))
def test_a_time_is_found_by_halving(sequences, second):
    async def work():
        stream = PlayedStream(sequences, 400)
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
        first = await MessageReader(stream, "S").first_at(at)
        there = [each for each in sorted(sequences) if each >= second]
        left = [each for each in sorted(sequences) if each >= first]
        assert left == there and stream.asked < 12

    asyncio.run(work())


def test_a_gap_of_a_million_costs_a_request_and_not_a_million(run):
    async def work():
        stream = PlayedStream([*range(1, 31), *range(1_000_000, 1_000_030)])
        page = await MessageReader(stream, "S").after(1, count=50)
        assert numbers(page)[-1] == 1_000_019 and stream.asked < 130
        stream.asked = 0
        page = await MessageReader(stream, "S").before(1_000_001, count=2)
        assert numbers(page) == [30, 1_000_000] and stream.asked < 100

    run(work())


def test_large_messages_are_held_a_few_at_a_time(run):
    async def work():
        stream = PlayedStream(range(1, 200), size=1 << 20)
        for page in (
            await MessageReader(stream, "S").after(1, count=100),
            await MessageReader(stream, "S").before(200, count=100),
        ):
            assert 1 <= len(page.messages) <= 12 and page.has_more
        assert stream.most_bytes <= 2 * PAGE_BYTES

    run(work())


def test_large_messages_after_small_ones_are_not_asked_for_by_the_dozen(run):
    async def work():
        stream = PlayedStream(range(1, 200))
        stream.payload_max = 10 << 20
        most = 0

        class Counting(MessageReader):
            async def at_or_after(self, sequence, pattern=">"):
                nonlocal most
                found = await super().at_or_after(sequence, pattern)
                most = max(most, stream.under_way)
                return found

        page = await Counting(stream, "S").after(1, count=100)
        assert len(page.messages) == 100 and 2 <= most <= 6

    run(work())


def test_when_one_request_fails_the_others_are_given_up(run):
    async def work():
        ended = []

        class Failing(PlayedStream):
            async def ask(self, what, body=None):
                if body["seq"] < 20:
                    return await super().ask(what, body)
                if body["seq"] == 30:
                    raise UnreachableError("gone")
                try:
                    await asyncio.sleep(60)
                finally:
                    ended.append(body["seq"])

        with pytest.raises(UnreachableError, match="gone"):
            await MessageReader(Failing(range(1, 100)), "S").after(1)
        await asyncio.sleep(0)
        assert ended

    run(work())


def test_pages_of_a_stream_with_gaps(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"%d" % number for number in range(1, 41)])
            for sequence in (*range(5, 20), 22, 40):
                await world.js.delete_msg(name, sequence)
            reader = MessageReader(world.api, name)
            there = [*range(1, 5), 20, 21, *range(23, 40)]
            assert await reader.bounds() == (1, 41)
            assert numbers(await reader.after(1)) == there
            assert numbers(await reader.before(41, count=5)) == there[-5:]
            assert numbers(await reader.before(22, count=3)) == [4, 20, 21]
            assert (await reader.at_or_after(5)).sequence == 20
            assert await reader.at_or_after(40) is None
            with pytest.raises(AskingError, match="no message found"):
                await reader.at(5)
            assert (await reader.at(4)).payload == b"4"

    run(work())


def test_subjects_headers_and_bytes_of_any_kind(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name)
            world.client._skip_subject_validation = True
            await world.js.publish(
                f"{name}.a", bytes(range(256)), headers={"A": "b: <i>", "C": "ü"}
            )
            raw = f"PUB {name}.".encode() + b"\xff\xfe.<b> 2\r\nhi\r\n"
            world.client._transport.write(raw)
            await world.client.flush()
            await world.js.publish(f"{name}.b", b"")
            reader = MessageReader(world.api, name)
            first, odd, last = (await reader.after(1)).messages
            assert first.payload == bytes(range(256)) and first.subject == f"{name}.a"
            assert first.headers == [("A", "b: <i>"), ("C", "ü")]
            assert abs(datetime.now(UTC) - first.time) < timedelta(minutes=1)
            assert odd.payload == b"hi" and odd.subject.endswith("�.<b>")
            assert (last.headers, last.payload, last.size) == ([], b"", 0)
            assert (await reader.last_of(f"{name}.a")).sequence == 1
            assert (await reader.last_of(f"{name}.*")).sequence == 3
            page = await reader.after(1, f"{name}.b")
            assert numbers(page) == numbers(await reader.before(4, f"{name}.b")) == [3]
            with pytest.raises(AskingError, match="no message found"):
                await reader.last_of(f"{name}.c")

    run(work())


def test_a_message_of_eight_megabytes(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name)
            for _ in range(3):
                await world.js.publish(f"{name}.a", bytes(8 << 20 >> 1) * 2, timeout=20)
            page = await MessageReader(world.api, name).before(4)
            assert page.messages[-1].size == 8 << 20 and len(page.messages) < 3

    run(work())


def test_a_work_queue_is_looked_at_and_stays_as_it_is(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"1", b"2"], retention="workqueue")
            await world.js.add_consumer(name, durable_name="C", ack_policy="explicit")
            assert numbers(await MessageReader(world.api, name).after(1)) == [1, 2]
            info = await world.js.stream_info(name)
            assert (info.state.messages, info.state.consumer_count) == (2, 1)

    run(work())


def test_what_a_server_says_wrongly_is_shown_without_it():
    message = read_message({"seq": "x", "data": "***", "hdrs": "TkFUUy8xLjANCg0K"})
    assert message == Message(0, "", None, b"NATS/1.0\r\n\r\n", b"") and message.headers == []
