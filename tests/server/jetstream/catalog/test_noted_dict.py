"""A dictionary that notes which keys have changed."""

from __future__ import annotations

import pytest
from jetstream_server.jetstream.catalog.noted_dict import NotedDict


def test_every_way_to_change_it_is_noted() -> None:
    changed: set[str] = set()
    noted: NotedDict[int] = NotedDict(changed)
    for change, key in (
        (lambda: noted.__setitem__("a", 1), "a"),
        (lambda: noted.__setitem__("a", 2), "a"),
        (lambda: noted.pop("a"), "a"),
        (lambda: noted.pop("b", None), "b"),
        (lambda: noted.__setitem__("c", 3), "c"),
        (lambda: noted.__delitem__("c"), "c"),
    ):
        change()
        assert changed == {key}
        changed.clear()
    assert noted == {}
    with pytest.raises(KeyError):
        noted.pop("d")
    assert noted.get("a") is None
    assert not changed - {"d"}
