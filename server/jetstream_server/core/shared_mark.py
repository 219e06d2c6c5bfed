"""What becomes true of many subscriptions in one moment.

A client may have a million. From when it is gone, or is somebody else, none of them may be served;
and from when it has other rights, each is asked what it may hear until it has been looked at again.
To mark each of them takes 50 ms, in which nobody is served at all. So they are made with one mark
in common, as what says whether they are `closed`, or filtered, and all that happens is that it is
set.
"""

from __future__ import annotations


class SharedMark(list[None]):
    """False until it is set, true from then on.

    A list, as it is asked several times for each delivery whether it is set: whether a list is
    empty is found out without calling anything in Python.
    """

    __slots__ = ()

    def set(self) -> None:
        """Set it, if it is not."""
        if not self:
            self.append(None)
