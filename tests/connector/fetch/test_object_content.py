"""Contents of objects: held against what is said of them, also while they are replaced."""

from __future__ import annotations

import dataclasses

import pytest

from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.errors import ObjectDamagedError, ObjectTooLargeError
from jetstream_spark.fetch.object_content import ObjectContents
from jetstream_spark.object_info import CHUNK_BYTES, ObjectInfo, chunk_subject, info_subject
from jetstream_spark.object_store import ObjectStore
from tests.connector.stores import Store

pytestmark = pytest.mark.genuine
BIG = bytes(range(256)) * (2 * CHUNK_BYTES // 256) + b"end"


@pytest.fixture
def store(genuine) -> Store:
    return Store(genuine.url)


def info(store: Store, name: str) -> ObjectInfo:
    said = run(ObjectStore(store.control.inner, store.stream).info(info_subject(store.name, name)))
    assert said is not None
    return said


def contents(store: Store, **options: str) -> ObjectContents:
    return ObjectContents(this_host(), store.source_options(**options))


@pytest.mark.parametrize("content", [b"one chunk", BIG])
def test_chunks_that_are_not_what_was_promised(store, content) -> None:
    store.put("a", content)
    said = info(store, "a")
    store.control.request_message(chunk_subject(said), content[:5])
    with pytest.raises(ObjectDamagedError, match=r"object 'a' in stream .* is damaged"):
        run(contents(store).read(store.stream, dataclasses.replace(said, revision=99)))


@pytest.mark.parametrize("content", [b"one chunk", BIG])
def test_an_object_that_is_replaced_while_it_is_read(store, content) -> None:
    store.put("a", content)
    said = info(store, "a")
    store.put("a", b"new")
    assert run(contents(store).read(store.stream, said)) is None
    latest = run(contents(store).latest(store.stream, said))
    assert latest is not None and latest[1] == b"new"
    assert latest[0].revision == info(store, "a").revision
    store.ask(lambda one: one.delete("a"))
    assert run(contents(store).latest(store.stream, said)) is None


def test_an_object_that_is_too_large_is_not_read(store) -> None:
    store.put("a", BIG)
    with pytest.raises(ObjectTooLargeError, match=r"object 'a' .* has 262147 bytes.* is 262146"):
        run(contents(store, maxObjectSize="262146").read(store.stream, info(store, "a")))
    assert run(contents(store, maxObjectSize="262147").read(store.stream, info(store, "a"))) == BIG


def test_a_digest_that_is_not_that_of_the_chunks(store) -> None:
    store.put("a", b"1")
    said = dataclasses.replace(info(store, "a"), digest="SHA-256=AAAA")
    with pytest.raises(ObjectDamagedError, match="digest SHA-256=AAAA"):
        run(contents(store).read(store.stream, said))
