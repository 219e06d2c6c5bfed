"""The end of many subscriptions, which comes for all of them in one moment.

A client may have a million, and from when it is gone, or is somebody else, none of them may be
served. To mark each of them takes 50 ms, in which nobody is served at all. So they are made with
one end in common, as what says whether they are `closed`, and all that happens is that it comes.
"""

from __future__ import annotations


class SharedEnd(list[None]):
    """False until it comes, true from then on.

    A list, as it is asked several times for each delivery whether it has come: whether a list is
    empty is found out without calling anything in Python.
    """

    __slots__ = ()

    def come(self) -> None:
        """Let it come, if it has not."""
        if not self:
            self.append(None)
