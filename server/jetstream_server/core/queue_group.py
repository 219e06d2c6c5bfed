"""Choosing the member of a queue group that gets the next stretch of messages.

The start is random, and the walk goes round until it finds a member that can take them, as in the
genuine server (docs/reference/protocol.md#delivery). The caller decides who can take them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from jetstream_server.core.subscription import Subscription


def in_turn(members: Sequence[Subscription], random: Random) -> Iterator[Subscription]:
    """Iterate once round the open members, from a random one."""
    count = len(members)
    if count == 0:
        return
    first = 0 if count == 1 else int(random.random() * count)
    for step in range(count):
        member = members[(first + step) % count]
        if not member.closed:
            yield member
