"""What is given up when something fails in a way that nobody foresaw: one table.

An exception that escapes is caught at the nearest boundary (`core/containment.py`). The parts that
may be half changed lie between there and the place where it was raised: whichever of them is in
this table is given up, and nothing else is. A part whose state the code only looks at is not given
up; just what was asked of it fails. So the choice depends on the code that ran, and the same input
leads to the same choice everywhere.

A place is a class or a function, as tracebacks name it; a method of a class goes before the class.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Domain(IntEnum):
    """What can be given up; the widest last."""

    MESSAGE = 1  # it is not taken; whoever published it gets no acknowledgement, or a refusal
    REQUEST = 2  # it is answered with an internal error, or not at all
    CONNECTION = 3  # -ERR 'Internal Server Error', and the end
    LINK = 4  # between accounts: closed until the next reload
    SOURCE = 5  # the line from an origin: made again after a pause
    CONSUMER = 6  # stopped, and restarted from its stored state after a pause
    STREAM = 7  # offline, brought back from its store after a pause; twice for one input: stays so
    PROCESS = 8  # going on could break a promise: exit code 2

    @property
    def word(self) -> str:
        """Return what logs and monitoring call it."""
        return self.name.lower()


class Row(NamedTuple):
    """One place.

    Attributes:
        domain: what is given up when an exception passes through here.
        given_up: which object that is, by way of the place's own variables; empty for nothing that
            could be half changed.
    """

    domain: Domain
    given_up: str = ""


_MESSAGE = Row(Domain.MESSAGE)
_REQUEST = Row(Domain.REQUEST)
_CONNECTION = Row(Domain.CONNECTION, "self")
_CONSUMER = Row(Domain.CONSUMER, "self")
_PART = Row(Domain.CONSUMER, "self._shared")  # of a consumer
_SOURCE = Row(Domain.SOURCE, "self")
_STREAM = Row(Domain.STREAM, "self")
_PROCESS = Row(Domain.PROCESS)

PLACES: dict[str, Row] = {
    # -- clients ---------------------------------------------------------------------------------
    "Session": _CONNECTION,
    "ClientConnection": _CONNECTION,
    "LayeredConnection": _CONNECTION,
    "UpgradingConnection": _CONNECTION,
    "PasswordInquiry": Row(Domain.CONNECTION, "self._go_on.__self__"),  # the client that waits
    "Answers": _REQUEST,
    "Node._forget_session": _REQUEST,  # who is over is heard no more, and reached by nothing
    "Upkeep": _REQUEST,  # likewise
    # -- requests and monitoring -----------------------------------------------------------------
    "Api": _REQUEST,
    "Catalog": _REQUEST,
    "Outages": _REQUEST,
    "DirectGet": _REQUEST,
    "SlicedAnswer": _REQUEST,
    "_BegunSnapshot": _REQUEST,
    "SystemServices": _REQUEST,
    "ServerCommands": _REQUEST,
    "ClaimsServices": _REQUEST,
    "MonitorHttp": _REQUEST,
    "_Http": _CONNECTION,
    "Server": _REQUEST,  # a reload; healthz says that it was followed in part
    "SystemEvents": _REQUEST,
    "LameDuck": Row(Domain.REQUEST, "self"),
    "Router": Row(Domain.MESSAGE, "self"),
    "_LateRun": _MESSAGE,
    "_Wide": _MESSAGE,
    "_Crowded": _MESSAGE,
    "_Crossing": _MESSAGE,
    "TracedRoute": _MESSAGE,
    "DomainMapping": _MESSAGE,
    "Shadow": _MESSAGE,
    "ServiceImport": _MESSAGE,
    "ServiceReplies": _MESSAGE,
    # -- between accounts ------------------------------------------------------------------------
    "StreamImport": Row(Domain.LINK, "self"),
    "Joining": Row(Domain.LINK, "self"),
    "Successions": Row(Domain.CONNECTION, "self.session"),
    # -- what takes several turns ------------------------------------------------------------------
    "Snapshot": Row(Domain.REQUEST, "self"),
    "Restore": Row(Domain.REQUEST, "self"),
    "Slices": Row(Domain.REQUEST, "self"),
    "LateEndings": _REQUEST,
    "Sliced": _REQUEST,
    "Remains": Row(Domain.REQUEST, "self"),
    "Purging": Row(Domain.REQUEST, "self"),
    "Purging._remove": Row(Domain.STREAM, "self._stream"),
    # -- consumers: whatever drives one may leave it half changed --------------------------------
    "Consumer": _CONSUMER,
    "Consumer.info": _REQUEST,
    "Consumer.wants": _REQUEST,
    "Consumer.needs": _REQUEST,
    "Acks": _PART,
    "Pull": _PART,
    "Push": _PART,
    "Supply": _PART,
    "ConsumerFiles": _PART,
    "Inactivity": _PART,
    "update_consumer": Row(Domain.CONSUMER, "consumer"),
    "pause_consumer": Row(Domain.CONSUMER, "consumer"),
    "reset_consumer": Row(Domain.CONSUMER, "consumer"),
    "HaltedConsumer": _CONSUMER,
    # -- sources and mirrors ---------------------------------------------------------------------
    "Feed": _SOURCE,
    "Source": Row(Domain.SOURCE, "self.feed"),
    "Mirror": Row(Domain.SOURCE, "self.feed"),
    "Sourcing": _SOURCE,
    "Sourcing.info": _REQUEST,
    # -- streams: most code looks at one, and some changes it ------------------------------------
    "Stream": _MESSAGE,
    "_Leaving": _REQUEST,  # what is over reaches nobody, even if it stays in the list
    "StreamPublishing": _MESSAGE,
    "Contents": _MESSAGE,
    "StreamTemplate": _MESSAGE,
    "Republisher": _MESSAGE,
    "Schedules": _MESSAGE,
    "Expiry.recover": _MESSAGE,
    "AtomicBatches": Row(Domain.MESSAGE, "self"),
    "FastBatches": Row(Domain.MESSAGE, "self"),
    "RunStoring": Row(Domain.STREAM, "self._contents"),
    "Removal": _STREAM,
    "Comeback": Row(Domain.STREAM, "self"),
    **{
        f"Contents.{method}": _STREAM
        for method in (
            "append_run",
            "append",
            "_append_batch",
            "append_copy",
            "skip_to",
            "after_storing",
            "remember_ids",
            "_note_stored",
            "_purge_outdated",
            "expire",
        )
    },
    **{
        f"Stream.{method}": _STREAM
        for method in (
            "tick",
            "rest",
            "subscribe",
            "subscribe_more",
            "unsubscribe",
            "reconfigure",
            "add_consumer",
            "remove_consumer",
            "stop",
            "delete",
            "delete_in_steps",
        )
    },
    # -- the end of the process: going on could break a promise ----------------------------------
    "Catalog.run": _PROCESS,
    "GroupCommit": _PROCESS,
    "Flush": _PROCESS,
    "Reserve": _PROCESS,
}


def row_of(place: str) -> Row | None:
    """Return what the table says about a place, None when it says nothing.

    Args:
        place: the qualified name of a function.
    """
    return PLACES.get(place) or PLACES.get(place.partition(".")[0])
