"""Ports for servers that go away while somebody still tries to reach them.

Whoever asks the system for any port gets one from 32768 on: other servers, and Spark, which waits
there for its Python processes. One that a stopped server had is soon somebody else's, who then
hears a client that was not meant for him. So such servers take theirs from below, each in its turn,
in all the processes of a run: none is taken a second time before all others have been. They begin
behind 15002, where Spark Connect listens.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile
from pathlib import Path

_FIRST, _LAST = 16_000, 31_999
_TURN = Path(tempfile.gettempdir()) / f"jetstream-ports-{os.getuid()}"


def free_port() -> int:
    """Return a port that nobody has, and that nobody is given by chance."""
    with open(_TURN, "a+", encoding="ascii") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        turn.seek(0)
        port = int(turn.read() or _FIRST)
        while not _is_free(port := port + 1 if port < _LAST else _FIRST):
            pass
        turn.truncate(0)
        turn.write(str(port))
    return port


def free_ports(count: int) -> list[int]:
    """Return so many of them."""
    return [free_port() for _ in range(count)]


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False
