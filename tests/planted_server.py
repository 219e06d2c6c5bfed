"""The server as ever, but for exceptions that nobody foresaw in places where tests ask for them.

Clients set them off: by their name, by what they publish, by how they call what they make. Nothing
of this is in the server itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from jetstream_server.cli import main
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.origins.source import Source
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.monitor.system_services import SystemServices
from jetstream_server.net.pump import Pump
from jetstream_server.node.accounts.stream_imports import StreamImport
from jetstream_server.node.session import Session
from jetstream_server.store.disk.commit import GroupCommit

from tests.planted import plant


def times(count: int, is_meant: Callable[..., bool]) -> Callable[..., bool]:
    """Trip over what is meant, but only so many times."""
    left = [count]

    def is_due(*given: Any) -> bool:
        if not left[0] or not is_meant(*given):
            return False
        left[0] -= 1
        return True

    return is_due


def _is_poison(session: Session) -> bool:
    return session.options.get("name") == "poison" and not session.closing


def _has_client(pump: Pump, name: str) -> bool:
    return any(each.options.get("name") == name for each in pump.node.sessions.values())


def _is_poison_or_huge(name: str) -> bool:
    if name == "HUGE":
        raise MemoryError
    return name == "POISON"


def plant_all(patch: pytest.MonkeyPatch) -> None:
    """Plant an exception in each domain."""
    plant(patch, Session, "_unsubscribe", lambda self, sub: _is_poison(self))
    plant(patch, Pump, "_arm", lambda self, now: _has_client(self, "pump"))
    plant(patch, Catalog, "stream", lambda self, name: _is_poison_or_huge(name))
    plant(patch, Consumer, "advance", times(2, lambda self, now: self.name == "poison"))
    plant(
        patch, Contents, "_note_stored", lambda self, message, *given: message.payload == b"poison"
    )
    plant(patch, SystemServices, "subscribe", lambda self: self._account.name == "POISON")
    plant(patch, GroupCommit, "write", lambda self, owner, file, *given: "DISK" in str(file.path))
    plant(patch, Source, "_take_all", times(2, lambda self, *given: "POISONED" in self.key))
    plant(patch, StreamImport, "_insert", lambda self, sub: "'poison.>'" in str(self) and sub.sid)


if __name__ == "__main__":
    plant_all(pytest.MonkeyPatch())
    sys.exit(main())
