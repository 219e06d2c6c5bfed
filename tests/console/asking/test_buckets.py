"""Key-value buckets: their keys in pages, and writes that nobody else's are lost by."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_console.asking.buckets import (
    Bucket,
    Entry,
    EntryReader,
    EntryWriter,
    all_buckets,
    bucket_detail,
    checked_key,
    checked_pattern,
    new_key,
)
from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_console.asking.link import Target
from jetstream_console.asking.messages import Message
from nats.js.api import StreamSource


def keys(page) -> list[str]:
    return [entry.key for entry in page.rows]


async def reader_of(world, name: str) -> EntryReader:
    return EntryReader(world.api, await bucket_detail(world.api, name))


class PlayedBucket:
    """An API with one bucket: what was written, with `None` for a deletion."""

    payload_max = 1 << 20

    def __init__(self, written):
        self.written = list(enumerate(written, 1))
        self.asked = 0

    async def ask(self, what, body=None):
        self.asked += 1
        if what.startswith("STREAM.INFO"):
            return {"state": {"first_seq": 1, "last_seq": len(self.written)}}
        wanted = body.get("last_by_subj") or body["next_by_subj"]
        in_order = reversed(self.written) if "last_by_subj" in body else self.written
        for sequence, (key, value) in in_order:
            subject = f"$KV.B.{key}"
            if sequence >= body.get("seq", 1) and wanted in (subject, "$KV.B.>"):
                headers = {} if value else {"hdrs": "TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQoNCg=="}
                return {"message": {"seq": sequence, "subject": subject, **headers}}
        raise RefusedError("no message found", 404, 10037)


def bucket(history: int) -> Bucket:
    return Bucket("B", "KV_B", "", "$KV.B.", "$KV.B.", "", "file", 1, history, 0, 0, -1, 0, 0, None)


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=40),
    st.integers(1, 7),
    st.booleans(),
)
def test_every_key_is_on_one_page_with_its_newest_entry(written, count, shows_gone):
    async def work():
        played = PlayedBucket(written)
        reader, end = EntryReader(played, bucket(64)), len(written) + 1
        found: list[Entry] = []
        while True:
            page = await reader.keys(end, count=count, shows_gone=shows_gone)
            assert len(page.rows) <= count
            found += page.rows
            if not page.has_more:
                break
            assert page.start < end
            end = page.start
        last = {key: (number, value) for number, (key, value) in played.written}
        wanted = [number for number, value in last.values() if value or shows_gone]
        assert [each.revision for each in found] == sorted(wanted, reverse=True)

    asyncio.run(work())


def test_a_page_costs_what_is_on_it(run):
    async def work():
        played = PlayedBucket([(str(number), True) for number in range(3000)])
        page = await EntryReader(played, bucket(1)).keys(3001)
        assert keys(page) == [str(number) for number in range(2999, 2949, -1)]
        assert page.has_more and played.asked < 150
        played = PlayedBucket([("a", True)] * 5000)
        page = await EntryReader(played, bucket(64)).keys(5001)
        assert played.asked < 2500 and keys(page) == ["a"] and page.has_more

    run(work())


def test_keys_are_shown_without_a_request_that_is_refused(run, connected, name):
    """Servers count those, and whoever watches the count wants to know why."""

    async def work():
        async with connected() as world:
            bucket = await world.js.create_key_value(bucket=name, history=5)
            for number in range(20):
                await bucket.put(f"k{number % 8}", b"%d" % number)
            before = (await world.api.ask("INFO"))["api"]["errors"]
            page = await (await reader_of(world, name)).keys(21, count=8)
            assert keys(page) == [f"k{number % 8}" for number in range(19, 11, -1)]
            assert (await world.api.ask("INFO"))["api"]["errors"] == before

    run(work())


def test_the_buckets_of_an_account_and_their_keys(run, connected, name):
    async def work():
        async with connected() as world:
            made = await world.js.create_key_value(bucket=name, history=3, ttl=3600)
            await world.stream(f"{name}x")
            await world.js.add_stream(
                name=f"KV_{name}m", mirror=StreamSource(name=f"KV_{name}"), max_msgs_per_subject=3
            )
            for number in range(60):
                await made.put(f"k.{number}", b"%d" % number)
            await made.put("k.3", b"again")
            await made.put("other", b"")
            await made.delete("k.59")
            found = await all_buckets(world.api)
            rows = {row.name: row for row in found.rows if row.name.startswith(name)}
            assert list(rows) == [name, f"{name}m"] and found.unseen == 0
            row, mirror = rows.values()
            assert (row.keys, row.entries, row.history) == (61, 63, 3)
            assert (row.age_max_ns, row.origin, mirror.origin) == (3600 * 10**9, "", name)
            assert mirror.prefix == mirror.write_prefix == f"$KV.{name}."
            while (await bucket_detail(world.api, f"{name}m")).entries < 63:
                await asyncio.sleep(0.01)
            for each in (name, f"{name}m"):
                reader = await reader_of(world, each)
                end = await reader.end()
                first = await reader.keys(end)
                assert keys(first)[:4] == ["other", "k.3", "k.58", "k.57"]
                second = await reader.keys(first.start)
                assert sorted(keys(first) + keys(second)) == sorted(
                    ["other", *(f"k.{number}" for number in range(59))]
                )
                gone = (await reader.keys(end, "k.59", shows_gone=True)).rows
                assert [each.gone for each in gone] == ["deleted"]
                assert keys(await reader.keys(end, "other")) == ["other"]
                assert keys(await reader.keys(end, "none.>")) == []
                past = await reader.history("k.3", end)
                assert [each.message.payload for each in past.rows] == [b"again", b"3"]
                assert (await reader.at("k.3", 4)).message.payload == b"3"
                with pytest.raises(RefusedError, match="of another key"):
                    await reader.at("k.3", 5)
                with pytest.raises(AskingError, match="no message found"):
                    await reader.latest("none")

    run(work())


def test_what_was_changed_meanwhile_is_not_written_over(run, connected, name):
    async def work():
        async with connected() as world:
            other = await world.js.create_key_value(bucket=name, history=5)
            writer = EntryWriter(world.api, await bucket_detail(world.api, name))
            reader = await reader_of(world, name)
            assert await writer.create("a/b=c", b"1") == 1
            with pytest.raises(RefusedError, match="is there already, at revision 1"):
                await writer.create("a/b=c", b"2")
            await other.put("a/b=c", b"theirs")
            for change in (
                lambda: writer.update("a/b=c", b"2", 1),
                lambda: writer.delete("a/b=c", 1),
                lambda: writer.purge("a/b=c", 1),
            ):
                with pytest.raises(RefusedError, match=r"after revision 1 \(wrong last seq"):
                    await change()
            assert (await reader.latest("a/b=c")).message.payload == b"theirs"
            assert await writer.update("a/b=c", b"3", 2) == 3
            assert await writer.delete("a/b=c", 3) == 4
            assert (await reader.latest("a/b=c")).gone == "deleted"
            assert await writer.create("a/b=c", b"5") == 5
            assert len((await reader.history("a/b=c", 6)).rows) == 5
            assert await writer.purge("a/b=c", 5) == 6
            [left] = (await reader.history("a/b=c", 7)).rows
            assert left.gone == "purged"
            assert await writer.put("a/b=c", bytes(range(256))) == 7
            assert (await other.get("a/b=c")).value == bytes(range(256))

    run(work())


def test_what_the_server_refuses_is_in_its_words(run, connected, name):
    async def work():
        async with connected() as world:
            await world.js.create_key_value(bucket=name, max_value_size=10)
            writer = EntryWriter(world.api, await bucket_detail(world.api, name))
            with pytest.raises(RefusedError, match="message size exceeds maximum allowed"):
                await writer.put("a", b"x" * 11)
            with pytest.raises(AskingError, match="maximum payload exceeded"):
                await writer.put("a", bytes(17 << 20))
            await world.js.delete_key_value(name)
            with pytest.raises(AskingError, match="Nobody listens"):
                await writer.put("a", b"")
            with pytest.raises(RefusedError, match="stream not found"):
                await bucket_detail(world.api, name)
        async with connected(user="few") as world:
            with pytest.raises(RefusedError, match="ermissions violation"):
                await all_buckets(world.api)

    run(work())


def test_keys_that_are_not_utf_8_and_values_of_many_megabytes(run, connected, name):
    async def work():
        async with connected() as world:
            made = await world.js.create_key_value(bucket=name)
            world.client._transport.write(f"PUB $KV.{name}.".encode() + b"\xff.<b> 2\r\nhi\r\n")
            await world.client.flush()
            for number in range(3):
                await made.put(f"large{number}", bytes(8 << 20 >> 1) * 2)
            reader = await reader_of(world, name)
            page = await reader.keys(await reader.end())
            assert keys(page)[0] == "large2" and len(page.rows) < 3 and page.has_more
            [odd] = (await reader.keys(2)).rows
            assert (odd.key, odd.message.payload) == ("�.<b>", b"hi")
            assert (await reader.at(odd.key, 1)) == odd

    run(work())


def test_what_the_server_put_in_place_of_a_value_is_none():
    reader = EntryReader(PlayedBucket([]), bucket(1))
    for lines, gone in (
        ("Nats-Marker-Reason: MaxAge", "expired"),
        ("Nats-Marker-Reason: Purge\r\nKV-Operation: PURGE", "removed by the server (Purge)"),
        ("KV-Operation: PURGE", "purged"),
        ("KV-Operation: PUT", ""),
    ):
        block = f"NATS/1.0\r\n{lines}\r\n\r\n".encode()
        assert reader.entry(Message(1, "$KV.B.a.b", None, block, b"")).gone == gone


def test_of_another_domain_it_is_written_to_there(run):
    class Asked:
        foreign_prefix = "$JS.hub.API"

        async def ask(self, what):
            assert what == "STREAM.INFO.KV_B"
            return {"config": {"name": "KV_B"}}

    async def work():
        assert (await bucket_detail(Asked(), "B")).write_prefix == "$JS.hub.API.$KV.B."

    run(work())
    assert Target((), domain="hub").api_prefix == Asked.foreign_prefix


@pytest.mark.parametrize(
    "key", ["", "a b", "a..b", ".a", "a.", "a.*", ">", "a\r\nPUB x 0", "a\x00"]
)
def test_what_cannot_be_a_key_is_not_sent(key):
    with pytest.raises(RefusedError, match="cannot be a key"):
        checked_key(key)


def test_new_keys_are_those_that_every_client_reads():
    assert new_key("a/b_c=D.9-") == "a/b_c=D.9-" and checked_key("ü.<b>") == "ü.<b>"
    with pytest.raises(RefusedError, match="every client"):
        new_key("ü.<b>")
    assert checked_pattern("") == ">" and checked_pattern("a.*") == "a.*"
    with pytest.raises(RefusedError, match="no pattern"):
        checked_pattern("a b")
