"""The key-value bucket against the genuine server."""

from __future__ import annotations

import itertools

import pytest

from jetstream_spark.client.blocking import Blocking
from jetstream_spark.errors import StreamNotFoundError
from jetstream_spark.sink.kv import KvBucket

pytestmark = pytest.mark.genuine
_numbers = itertools.count()


@pytest.fixture
def bucket(stream) -> KvBucket:
    return Blocking(KvBucket(stream.control.inner, f"bucket{next(_numbers)}"))


def test_a_missing_bucket_is_an_empty_one(bucket) -> None:
    assert bucket.get("a.b") is None
    bucket.forget("a")


def test_values_are_set_at_the_revision_that_was_read(bucket) -> None:
    bucket.create(1)
    first = bucket.put("a.b", b"one", 0)
    assert bucket.put("a.b", b"two", 0) is None
    second = bucket.put("a.b", b"two", first)
    assert bucket.put("a.b", b"three", first) is None
    entry = bucket.get("a.b")
    assert (entry.value, entry.revision) == (b"two", second)
    assert bucket.get("a") is None


def test_forgetting_takes_what_is_below_a_prefix_and_nothing_else(bucket) -> None:
    bucket.create(1)
    for key in ("a", "a.b", "a.c.d", "ab.c"):
        bucket.put(key, b"x", 0)
    bucket.forget("a")
    assert [bucket.get(key) is None for key in ("a", "a.b", "a.c.d", "ab.c")] == [
        False, True, True, False,
    ]  # fmt: skip


def test_making_it_twice_changes_nothing(bucket) -> None:
    bucket.create(1)
    bucket.put("k", b"v", 0)
    bucket.create(1)
    assert bucket.get("k").value == b"v"


def test_a_bucket_that_was_deleted_is_not_waited_for(bucket, stream) -> None:
    bucket.create(1)
    first = bucket.put("k", b"v", 0)
    stream.control.request(f"STREAM.DELETE.KV_{bucket.bucket}")
    with pytest.raises(StreamNotFoundError, match=f"KV_{bucket.bucket}"):
        bucket.put("k", b"w", first)
