"""One object store through the API of its stream."""

from __future__ import annotations

from typing import Any

import pytest

from jetstream_spark.client.blocking import Blocking
from jetstream_spark.client.operation import Operation
from jetstream_spark.object_info import info_subject
from jetstream_spark.object_store import ObjectStore
from tests.connector.stores import Store


@pytest.mark.genuine
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


class Leaders:
    """A control each of whose questions another leader may answer, and its host; pauses take no
    time.

    Args:
        listed: the subjects that each answer lists, the last ones again and again.
    """

    def __init__(self, replicas: int, *listed: list[str]) -> None:
        self.host, self.time = self, 100.0
        self._replicas, self._listed = replicas, list(listed)

    def now(self) -> float:
        return self.time

    def token(self, size_bytes: int) -> str:
        return "ff" * size_bytes

    def look_up(self, operation: str, body: dict[str, Any]) -> Operation[dict[str, Any]]:
        yield from ()
        offset, listed = body["offset"], self._listed[0]
        page = listed[offset : offset + 2]
        if offset + len(page) == len(listed) and len(self._listed) > 1:
            del self._listed[0]
        state = {"subjects": dict.fromkeys(page, 1)} if page else {}
        return {"config": {"num_replicas": self._replicas}, "state": state, "total": len(listed)}

    def subjects(self) -> tuple[set[str], float]:
        """What is found, and after how many seconds."""
        asking = ObjectStore(self, "OBJ_S").subjects("$O.S.C.>")
        try:
            while True:
                self.time = next(asking).until
        except StopIteration as ended:
            return ended.value, self.time - 100


def test_all_pages_are_listed() -> None:
    assert Leaders(1, list("abcde"), []).subjects() == (set("abcde"), 0.0)
    assert Leaders(1, []).subjects() == (set(), 0.0)


def test_who_no_longer_leads_may_not_list_all() -> None:
    found, after_s = Leaders(3, ["b"], ["b"], list("abc"), ["b"]).subjects()
    assert found == set("abc") and 2.0 <= after_s < 4.0
