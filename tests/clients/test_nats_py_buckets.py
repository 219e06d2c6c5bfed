"""nats-py's key-value buckets and object stores, on the bundled and on the genuine server.

Every bucket has a name of its own: the genuine server removes the files of a deleted stream in the
background, and may refuse one of the same name meanwhile. A watcher of nats-py tells "that is all"
when it asks for the state of its consumer before it has seen the messages that are on their way,
so what a test waits for is the entries it expects, and what stands on a watcher is tried again.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json

import nats.js.errors
import pytest
from nats.js import api

SECONDS = 60


async def until(expected, ask):
    """Ask again until the answer is the expected one; the last answer is the one compared."""
    answer = None
    for _ in range(100):
        try:
            answer = await ask()
        except nats.js.errors.NoKeysError:
            answer = []
        if answer == expected:
            return
        await asyncio.sleep(0.1)
    assert answer == expected


async def keys(bucket, expected, **options):
    async def ask():
        return sorted(await bucket.keys(**options))

    await until(expected, ask)


async def history(bucket, key, expected):
    async def ask():
        return [(each.revision, each.value, each.operation) for each in await bucket.history(key)]

    await until(expected, ask)


async def entries(watcher, count):
    """Return so many entries of a watcher, without its sign that there are no more for now."""
    found = []
    while len(found) < count:
        entry = await watcher.updates(timeout=SECONDS)
        if entry is not None:
            found.append(entry)
    return found


def told(found):
    return [(each.key, each.value, each.operation) for each in found]


def test_put_create_update_and_get(run):
    async def session(client):
        js = client.jetstream()
        bucket = await js.create_key_value(bucket="BASICS", history=5, ttl=60)
        assert await bucket.put("k", b"1") == 1
        assert await bucket.create("n", b"x") == 2
        with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
            await bucket.create("k", b"again")
        assert await bucket.update("k", b"2", last=1) == 3
        with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
            await bucket.update("k", b"3", last=1)
        entry = await bucket.get("k")
        assert (entry.value, entry.revision) == (b"2", 3)
        assert (await bucket.get("k", revision=1)).value == b"1"
        with pytest.raises(nats.js.errors.KeyNotFoundError):
            await bucket.get("k", revision=2)  # another key's
        with pytest.raises(nats.js.errors.KeyNotFoundError):
            await bucket.get("nothing")
        await history(bucket, "k", [(1, b"1", None), (3, b"2", None)])
        await keys(bucket, ["k", "n"])
        status = await bucket.status()
        assert (status.bucket, status.values, status.history, status.ttl) == ("BASICS", 3, 5, 60)
        again = await js.key_value("BASICS")
        assert (await again.get("n")).value == b"x"
        assert await js.delete_key_value("BASICS")
        with pytest.raises(nats.js.errors.BucketNotFoundError):
            await js.key_value("BASICS")

    run(session)


@pytest.mark.parametrize("direct", [False, True])
def test_delete_purge_and_create_again(run, direct):
    async def session(client):
        js = client.jetstream()
        bucket = await js.create_key_value(bucket=f"GONE_{direct}", history=3, direct=direct)
        await bucket.put("k", b"1")
        await bucket.put("k", b"2")
        with pytest.raises(nats.js.errors.BadRequestError, match="wrong last sequence: 2"):
            await bucket.delete("k", last=1)
        assert await bucket.delete("k", last=2)
        with pytest.raises(nats.js.errors.KeyNotFoundError) as deleted:
            await bucket.get("k")
        assert (deleted.value.entry.revision, deleted.value.op) == (3, "DEL")
        await history(bucket, "k", [(1, b"1", None), (2, b"2", None), (3, b"", "DEL")])
        assert await bucket.create("k", b"4") == 4
        assert (await bucket.get("k", revision=2)).value == b"2"
        with pytest.raises(nats.js.errors.KeyNotFoundError):
            await bucket.get("k", revision=1)
        await history(bucket, "k", [(2, b"2", None), (3, b"", "DEL"), (4, b"4", None)])
        await bucket.purge("k")
        await history(bucket, "k", [(5, b"", "PURGE")])
        with pytest.raises(nats.js.errors.KeyNotFoundError):
            await bucket.get("k")

    run(session)


def test_keys_by_filters(run):
    async def session(client):
        bucket = await client.jetstream().create_key_value(bucket="FILTERS")
        for key in ("a.1", "a.2", "b.1", "b.gone"):
            await bucket.put(key, b"x")
        await bucket.delete("b.gone")
        await keys(bucket, ["a.1", "a.2", "b.1"])
        await keys(bucket, ["a.1", "a.2"], filters=["a."])
        await keys(bucket, ["a.1", "a.2", "b.1"], filters=["a.2", ".1"])
        with pytest.raises(nats.js.errors.NoKeysError):
            await bucket.keys(filters=["c"])

    run(session)


def test_watchers(run):
    async def session(client):
        bucket = await client.jetstream().create_key_value(bucket="WATCHED", history=3)
        await bucket.put("a.1", b"1")
        await bucket.put("a.1", b"2")
        await bucket.put("a.2", b"3")
        await bucket.put("b.1", b"4")
        await bucket.delete("a.2")
        last = [("a.1", b"2", None), ("b.1", b"4", None), ("a.2", b"", "DEL")]
        every = await bucket.watchall()
        assert told(await entries(every, 3)) == last
        some = await bucket.watch("a.*", include_history=True)
        of_a = [("a.1", b"1", None), ("a.1", b"2", None), ("a.2", b"3", None), ("a.2", b"", "DEL")]
        assert told(await entries(some, 4)) == of_a
        alive = await bucket.watch("a.*", ignore_deletes=True, include_history=True)
        assert told(await entries(alive, 3)) == of_a[:3]
        bare = await bucket.watch("*.1", meta_only=True)
        assert told(await entries(bare, 2)) == [("a.1", b"", None), ("b.1", b"", None)]
        short = await bucket.watch("b.1", inactive_threshold=30)
        assert told(await entries(short, 1)) == [("b.1", b"4", None)]

        await bucket.put("b.1", b"5")
        await bucket.purge("a.1")
        await bucket.put("a.3", b"6")
        news = [("b.1", b"5", None), ("a.1", b"", "PURGE"), ("a.3", b"6", None)]
        assert told(await entries(every, 3)) == news
        assert told(await entries(some, 2)) == news[1:]
        assert told(await entries(alive, 1)) == news[2:]
        assert told(await entries(bare, 2)) == [("b.1", b"", None), ("a.1", b"", "PURGE")]
        await every.stop()
        assert [each.key async for each in every if each] == []

    run(session)


def test_an_empty_bucket_is_known_to_be_empty(run):
    async def session(client):
        bucket = await client.jetstream().create_key_value(bucket="EMPTY")
        watcher = await bucket.watchall()
        assert await watcher.updates(timeout=SECONDS) is None
        with pytest.raises(nats.js.errors.NoKeysError):
            await bucket.keys()
        with pytest.raises(nats.js.errors.NoKeysError):
            await bucket.history("k")

    run(session)


def test_markers_of_keys_that_end(run):
    async def session(client):
        js = client.jetstream()
        # No message lives shorter than the markers.
        bucket = await js.create_key_value(bucket="MARKERS", history=3, limit_marker_ttl=1)
        assert (await bucket.status()).marker_ttl == 1
        watcher = await bucket.watchall()
        await bucket.create("k", b"x", msg_ttl=1)
        await bucket.put("p", b"y")
        # The purge takes the put away, also from a watcher that has yet to be told of it.
        assert told(await entries(watcher, 2)) == [("k", b"x", None), ("p", b"y", None)]
        await bucket.purge("p", msg_ttl=1)
        # The server's own marker of k; a purge that ends leaves none.
        ended = [("p", b"", "PURGE"), ("k", b"", "PURGE")]
        assert told(await entries(watcher, 2)) == ended

        async def values():
            return (await bucket.status()).values

        await until(0, values)
        lasting = await js.create_key_value(bucket="LASTING", history=3, limit_marker_ttl=60)
        await lasting.create("k", b"x", msg_ttl=90)
        await lasting.put("p", b"y")
        await lasting.purge("p", msg_ttl=1)
        for key, seconds in (("k", "90"), ("p", "60")):
            message = await js.get_last_msg("KV_LASTING", f"$KV.LASTING.{key}")
            assert message.headers["Nats-TTL"] == seconds

    run(session)


def test_purge_deletes(run):
    async def session(client):
        bucket = await client.jetstream().create_key_value(bucket="SWEPT", history=3)
        for key in ("a", "b", "c"):
            await bucket.put(key, b"1")
        await bucket.delete("a")
        await bucket.purge("b")

        async def sweep_young():
            await bucket.purge_deletes(olderthan=3600)
            return (await bucket.status()).values

        async def sweep_all():
            await bucket.purge_deletes(olderthan=0)
            return (await bucket.status()).values

        await until(3, sweep_young)
        await history(bucket, "a", [(4, b"", "DEL")])
        await until(1, sweep_all)
        await keys(bucket, ["c"])

    run(session)


def test_republish(run):
    async def session(client):
        republish = api.RePublish(src="$KV.COPIED.>", dest="copies.>")
        copies = await client.subscribe("copies.>")
        bucket = await client.jetstream().create_key_value(bucket="COPIED", republish=republish)
        await bucket.put("a.b", b"1")
        copy = await copies.next_msg(SECONDS)
        named = {name: copy.headers[name] for name in ("Nats-Subject", "Nats-Sequence")}
        assert (copy.subject, copy.data) == ("copies.a.b", b"1")
        assert named == {"Nats-Subject": "$KV.COPIED.a.b", "Nats-Sequence": "1"}
        await bucket.delete("a.b")
        assert (await copies.next_msg(SECONDS)).headers["KV-Operation"] == "DEL"

    run(session)


def test_limits_of_a_bucket(run):
    async def session(client):
        js = client.jetstream()
        config = api.KeyValueConfig(
            bucket="LIMITED",
            description="few",
            max_value_size=100,
            max_bytes=1000,
            storage=api.StorageType.MEMORY,
        )
        bucket = await js.create_key_value(config)
        with pytest.raises(nats.js.errors.APIError, match="message size exceeds maximum"):
            await bucket.put("k", bytes(200))
        with pytest.raises(nats.js.errors.APIError, match="maximum bytes exceeded"):
            for number in range(20):
                await bucket.put(f"k{number}", bytes(80))
        config = (await bucket.status()).stream_info.config
        assert (config.description, config.storage) == ("few", "memory")
        assert (config.discard, config.deny_delete, config.allow_rollup_hdrs) == ("new", True, True)
        with pytest.raises(nats.js.errors.APIError, match="message delete not permitted"):
            await js.delete_msg("KV_LIMITED", 1)
        with pytest.raises(nats.js.errors.APIError) as refused:
            await js.create_key_value(bucket="THREE", replicas=3)
        assert refused.value.err_code == 10074

    run(session)


def test_a_bucket_that_mirrors_another(run):
    async def session(client):
        js = client.jetstream()
        origin = await js.create_key_value(bucket="ORIGIN", direct=True)
        await origin.put("k", b"1")
        await js.add_stream(
            name="KV_COPY",
            mirror=api.StreamSource(name="KV_ORIGIN"),
            mirror_direct=True,
            max_msgs_per_subject=1,
            deny_delete=True,
        )
        await origin.put("k", b"2")

        async def last():
            return (await js.stream_info("KV_COPY")).state.last_seq

        await until(2, last)
        message = await js.get_last_msg("KV_COPY", "$KV.ORIGIN.k")
        assert (message.data, message.seq) == (b"2", 2)
        copy = await js.key_value("COPY")
        assert (await copy.status()).values == 1
        with pytest.raises(nats.js.errors.NoStreamResponseError):
            await copy.put("k", b"3")

    run(session)


def test_objects_are_put_got_listed_and_deleted(run):
    async def session(client):
        js = client.jetstream()
        store = await js.create_object_store("FILES", description="d", ttl=600)
        with pytest.raises(nats.js.errors.NotFoundError):
            await store.list()
        data = bytes(range(256)) * 1500  # three chunks
        info = await store.put("file", data)
        assert (info.size, info.chunks) == (len(data), 3)
        assert (await store.get("file")).data == data
        written = io.BytesIO()
        await store.get("file", writeinto=written)
        assert written.getvalue() == data
        await store.put("other", "small")
        await store.put("stream", io.BytesIO(data))
        await store.put("empty", b"")
        assert (await store.get("stream")).data == data
        assert (await store.get("empty")).data == b""
        names = ["empty", "file", "other", "stream"]
        assert sorted(each.name for each in await store.list()) == names
        await store.put("file", b"again")
        assert (await store.get("file")).data == b"again"
        await store.delete("other")
        for ask in (store.get, store.get_info, store.delete):
            with pytest.raises(nats.js.errors.ObjectNotFoundError):
                await ask("other")
        assert (await store.get_info("other", show_deleted=True)).deleted
        assert sorted(each.name for each in await store.list()) == names
        left = sorted(each.name for each in await store.list(ignore_deletes=True))
        assert left == ["empty", "file", "stream"]
        status = await store.status()
        # One of `again`, three of `stream`; what else is there describes the four objects.
        assert status.stream_info.state.messages == 1 + 3 + 4
        assert (status.description, status.ttl, status.sealed) == ("d", 600, False)
        assert (status.replicas, status.storage_type) == (1, "file")
        assert await js.delete_object_store("FILES")
        with pytest.raises(nats.js.errors.BucketNotFoundError):
            await js.object_store("FILES")

    run(session)


def test_chunks_and_digests_of_objects(run):
    async def session(client):
        js = client.jetstream()
        store = await js.create_object_store("CHUNKS")
        data = bytes(range(256)) * 200
        meta = api.ObjectMeta(
            description="d",
            headers={"A": "b"},
            options=api.ObjectMetaOptions(max_chunk_size=1000),
        )
        info = await store.put("big", data, meta=meta)
        assert (info.chunks, info.size, info.digest[:8]) == (52, len(data), "SHA-256=")
        found = await store.get("big")
        assert (found.data, found.info.headers, found.info.description) == (data, {"A": "b"}, "d")

        wrong = found.info.as_dict() | {"digest": "SHA-256=" + base64.b64encode(bytes(32)).decode()}
        subject = "$O.CHUNKS.M." + base64.urlsafe_b64encode(b"big").decode()
        await js.publish(subject, json.dumps(wrong).encode(), headers={"Nats-Rollup": "sub"})
        with pytest.raises(nats.js.errors.DigestMismatchError):
            await store.get("big")
        await js.publish(subject, b"no meta", headers={"Nats-Rollup": "sub"})
        with pytest.raises(nats.js.errors.BadObjectMetaError):
            await store.get("big")

    run(session)


def test_links_between_object_stores(run):
    async def session(client):
        js = client.jetstream()
        store = await js.create_object_store("LINKED")
        other = await js.create_object_store("LINKING")
        await store.put("file", b"there")

        def link(**target):
            options = api.ObjectMetaOptions(link=api.ObjectLink(**target), max_chunk_size=1000)
            return api.ObjectMeta(options=options)

        await other.put("one", b"", meta=link(bucket="LINKED", name="file"))
        await other.put("all", b"", meta=link(bucket="LINKED"))
        await other.put("lost", b"", meta=link(bucket="NOWHERE", name="file"))
        assert (await other.get("one")).data == b"there"
        assert (await other.get_info("one")).is_link()
        with pytest.raises(nats.js.errors.LinkIsABucketError):
            await other.get("all")
        with pytest.raises(nats.js.errors.BucketNotFoundError):
            await other.get("lost")

    run(session)


def test_the_description_of_an_object_is_updated(run):
    async def session(client):
        js = client.jetstream()
        store = await js.create_object_store("UPDATED")
        await store.put("file", b"data")
        await store.update_meta("file", api.ObjectMeta(name="file", description="new"))
        found = await store.get("file")
        assert (found.data, found.info.description) == (b"data", "new")
        with pytest.raises(nats.js.errors.ObjectAlreadyExists):
            await store.update_meta("file", api.ObjectMeta(name="another"))
        with pytest.raises(nats.js.errors.ObjectDeletedError):
            await store.update_meta("nothing", api.ObjectMeta(name="nothing"))

    run(session)


def test_object_watchers(run):
    async def session(client):
        js = client.jetstream()
        store = await js.create_object_store("OBSERVED")
        empty = await store.watch()
        assert await empty.updates(timeout=SECONDS) is None
        await store.put("a", b"1")
        await store.put("b", b"2")
        await store.delete("b")

        async def seen(watcher, count):
            return [(each.name, bool(each.deleted)) for each in await entries(watcher, count)]

        assert await seen(empty, 3) == [("a", False), ("b", False), ("b", True)]
        last = await store.watch()
        assert await seen(last, 2) == [("a", False), ("b", True)]
        assert await last.updates(timeout=SECONDS) is None
        alive = await store.watch(ignore_deletes=True, include_history=True)
        assert await seen(alive, 1) == [("a", False)]
        assert await alive.updates(timeout=SECONDS) is None
        news = await store.watch(updates_only=True)
        await store.put("c", b"3")
        assert await seen(news, 1) == [("c", False)]
        assert await seen(last, 1) == [("c", False)]

    run(session)


def test_a_sealed_object_store_stays_as_it_is(run):
    async def session(client):
        js = client.jetstream()
        store = await js.create_object_store("SEALED")
        await store.put("file", b"data")
        await store.seal()
        assert (await store.status()).sealed is True
        assert (await store.get("file")).data == b"data"
        with pytest.raises(nats.js.errors.APIError) as refused:
            await js.publish("$O.SEALED.C.x", b"after it was sealed")
        assert refused.value.err_code == 10109
        assert refused.value.err_code == 10109
        for change in (store.put("more", b"x"), store.delete("file")):
            with pytest.raises(nats.js.errors.APIError):
                await change
        assert (await store.get("file")).data == b"data"

    run(session)


def test_placement_of_an_object_store(run):
    async def session(client):
        js = client.jetstream()
        placement = api.Placement(cluster="here", tags=["a"])
        store = await js.create_object_store("PLACED", placement=placement)
        assert (await store.status()).stream_info.config.placement == placement

    run(session)
