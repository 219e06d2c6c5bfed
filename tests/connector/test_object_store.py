"""One object store through the API of its stream."""

from __future__ import annotations

import pytest

from jetstream_spark.client.blocking import Blocking
from jetstream_spark.object_info import info_subject
from jetstream_spark.object_store import ObjectStore
from tests.connector.stores import Store

pytestmark = pytest.mark.genuine


def test_looking_listing_and_purging(genuine) -> None:
    made = Store(genuine.url)
    store = Blocking(ObjectStore(made.control.inner, made.stream))
    assert store.last("$O.x") is None and store.info(info_subject(made.name, "a")) is None
    made.put("a", b"1")
    made.put("b", b"2")
    found = store.info(info_subject(made.name, "a"))
    assert (found.name, found.size, found.revision) == ("a", 1, 2)
    assert found.modified_ns > 1_600_000_000 * 10**9
    chunks = f"$O.{made.name}.C.>"
    assert len(store.subjects(chunks)) == 2
    store.purge(f"$O.{made.name}.C.{found.nuid}")
    assert len(store.subjects(chunks)) == 1
    made.control.request(f"STREAM.DELETE.{made.stream}")
    store.purge(chunks)
    assert store.last("$O.x") is None
