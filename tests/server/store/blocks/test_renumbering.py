"""Subjects that are kept get new numbers, some at a time."""

from __future__ import annotations

from jetstream_server.kernels.columns import NOWHERE
from jetstream_server.store.blocks.renumbering import Renumbering


def test_those_with_messages_are_kept_in_their_order_some_at_a_time():
    names, counts = [b"a", b"b", b"c", b"d"], [1, 0, 2, 0]
    renumbering = Renumbering(2)
    assert not renumbering.go_on(names, counts, 3)
    assert list(renumbering.moved) == [0, NOWHERE, 1]
    names.append(b"e")
    counts.append(7)
    assert renumbering.go_on(names, counts, 3)
    assert list(renumbering.moved) == [0, NOWHERE, 1, NOWHERE, 2]
    assert renumbering.ids.names == [b"a", b"c", b"e"]
    assert list(renumbering.left_out) == [0, 1, 0, 1, 0]


def test_what_has_messages_again_is_kept_as_well():
    names, counts = [b"a", b"b", b"c"], [0, 0, 1]
    renumbering = Renumbering(1)
    assert renumbering.go_on(names, counts, 9)
    renumbering.keep(names, [1])
    assert list(renumbering.moved) == [NOWHERE, 1, 0]
    assert (renumbering.ids.names, list(renumbering.left_out)) == ([b"c", b"b"], [1, 0, 0])
