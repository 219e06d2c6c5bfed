"""A window of chosen sequences: messages that go out again, the newest of each subject.

The store gives what is stored from a sequence on; here that is cut down to what was asked for.
Whatever is done per message is done in loops inside the interpreter's own types.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import compress, filterfalse

from jetstream_server.store.ports import MessageStore, Window

# This many unwanted messages are read for each wanted one; if more lie between, fewer are taken.
_SPREAD = 8


def chosen_window(store: MessageStore, chosen: array[int], bytes_max: int) -> Window:
    """Return the first of the chosen messages that are still stored.

    Args:
        chosen: rising sequences, at least one.
        bytes_max: of wire sizes, of all that is looked at; one message may exceed it.

    Returns:
        A window, perhaps empty. A chosen sequence below its `next_seq` that is not in it is not
        stored any more.
    """
    count = len(chosen)
    while count > 1 and chosen[count - 1] - chosen[0] >= count * _SPREAD:
        count //= 2
    span = chosen[count - 1] - chosen[0] + 1
    window = store.window(None, chosen[0], span, bytes_max)
    if not len(window):  # nothing is there, also beyond the end of the stream
        window.next_seq = max(window.next_seq, chosen[0] + 1)
    if window.sequences == chosen[: len(window)]:
        return window
    flags = bytes(map(set(chosen).__contains__, window.sequences))
    return Window(
        window.buffer,
        array(window.positions.typecode, compress(window.positions, flags)),
        array("Q", compress(window.sequences, flags)),
        array("Q", compress(window.sizes, flags)),
        window.next_seq,
    )


def missing_below(chosen: array[int], window: Window) -> list[int]:
    """Return which of the chosen sequences a window shows to be gone."""
    looked_at = chosen[: bisect_left(chosen, window.next_seq)]
    if len(looked_at) == len(window):
        return []
    return sorted(set(looked_at).difference(window.sequences))


def missing(store: MessageStore, chosen: array[int]) -> array[int]:
    """Return which of these rising sequences are not stored any more."""
    if not chosen or store.count(None, chosen[0], chosen[-1] + 1) == chosen[-1] - chosen[0] + 1:
        return array("Q")
    held = store.held(chosen)
    if len(held) == len(chosen):
        return array("Q")
    return array("Q", filterfalse(set(held).__contains__, chosen))


def shortened(window: Window, count: int) -> Window:
    """Return the first `count` messages of a window."""
    if count >= len(window):
        return window
    return Window(
        window.buffer,
        window.positions[:count],
        window.sequences[:count],
        window.sizes[:count],
        window.sequences[count - 1] + 1,
    )
