"""Names and their numbers."""

from __future__ import annotations

import pytest
from jetstream_server.kernels import interned
from jetstream_server.kernels.interned import Interned


def test_names_get_numbers_in_their_order():
    names = Interned([b"a", b"b"])
    assert [names.number(each) for each in (b"b", b"c", b"a", b"c")] == [1, 2, 0, 2]
    assert (names.names, len(names), names.get(b"c"), names.get(b"d")) == (
        [b"a", b"b", b"c"],
        3,
        2,
        -1,
    )
    assert names[b"c"] == 2
    with pytest.raises(KeyError):
        names[b"d"]


@pytest.mark.parametrize("is_foreseen", [False, True])
def test_they_are_in_parts_once_they_are_many(is_foreseen):
    count = interned.ALONE_MAX + 1
    names = Interned(count=count * is_foreseen)
    assert len(names.parts) == (interned.PARTS if is_foreseen else 1)
    for number in range(count - 1):
        names.number(b"%d" % number)
    names.spread()
    assert len(names.parts) == (interned.PARTS if is_foreseen else 1)
    assert names.number(b"one more") == count - 1
    names.spread()
    parts = names.parts
    assert len(parts) == interned.PARTS and sum(map(len, parts)) == count
    assert [names[each] for each in names.names] == list(range(count))
    names.spread()
    assert names.parts is parts
