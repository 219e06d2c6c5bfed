"""An exception that nobody foresaw costs what it has touched, and not the process.

A boundary is a `try` around a whole piece of work: a client's turn, a receiver's stretch, a timer.
It costs nothing until something is raised. Then the traceback tells which parts the exception has
come through, and `fault_domains.py` tells which of them may be half changed: these are given up,
each in its own way, and the boundary goes on with the next piece of work. Exceptions that the table
says nothing about go on to the next boundary, and in the end to the pump, which stops the process.

Containment is off unless somebody says where to log: in tests, models and the simulator a defect
ends the run.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Protocol, cast

from jetstream_server.core.fault_domains import Domain, row_of

_CAUSES_MAX = 1000  # remembered, so that each is logged once
_TEXT_MAX = 300
_MESSAGES_MAX = 1024  # messages of a stretch that tell it apart from others


@dataclass(frozen=True, slots=True)
class Incident:
    """One exception that was contained.

    Attributes:
        number: counts from 1; the server's log tells more under this number.
        domain: the widest that was given up.
        identity: the same for the same input at the same place.
    """

    number: int
    domain: Domain
    identity: bytes

    def __str__(self) -> str:
        return f"internal server error (incident {self.number} in the server's log)"


class Casualty(Protocol):
    """What can be given up."""

    def give_up(self, incident: Incident, now: int) -> None:
        """Stop, as an exception has left it half changed. May be called again."""
        ...


class Containment:
    """Gives up what an exception has come through.

    Args:
        note: takes operator's notes: level and text; None to contain nothing.

    Attributes:
        counts: of incidents so far, by domain.
    """

    def __init__(self, note: Callable[[str, str], None] | None = None) -> None:
        self._note = note
        self._causes: set[str] = set()
        self.counts: dict[Domain, int] = {
            domain: 0 for domain in Domain if domain is not Domain.PROCESS
        }

    @property
    def total(self) -> int:
        """Return how many incidents there were."""
        return sum(self.counts.values())

    def contain(self, error: Exception, now: int) -> Incident:
        """Give up what an exception came through on its way here.

        Args:
            error: being handled.
            now: handed on to what is given up.

        Raises:
            Exception: the same one, if nothing that it came through can be given up.
        """
        note = self._note
        if note is None or isinstance(error, MemoryError):
            raise error
        frames = list(_frames(error.__traceback__))
        rows = [(frame, row) for frame in frames if (row := row_of(frame.f_code.co_qualname))]
        widest = max((row.domain for _, row in rows), default=Domain.PROCESS)
        if widest is Domain.PROCESS:
            raise error
        incident = self._note_incident(note, error, frames, widest)
        casualties: dict[int, Casualty] = {}
        for frame, row in reversed(rows):  # the inner ones first
            if row.given_up and (found := _reached(frame, row.given_up)) is not None:
                casualties[id(found)] = found
        for casualty in casualties.values():
            casualty.give_up(incident, now)
        return incident

    def contain_call(self, error: Exception) -> Incident:
        """Say that a call has failed that nobody waits for, and that nothing in the table has to do
        with: a callback of a library. Whoever has called it goes on.

        Raises:
            Exception: the same one, if nothing is contained.
        """
        if self._note is None or isinstance(error, MemoryError):
            raise error
        frames = list(_frames(error.__traceback__))
        return self._note_incident(self._note, error, frames, Domain.REQUEST)

    def _note_incident(
        self,
        note: Callable[[str, str], None],
        error: Exception,
        frames: list[FrameType],
        to: Domain,
    ) -> Incident:
        """Count it, and log it if it is the first for its cause."""
        self.counts[to] += 1
        cause = _cause(error, frames, to)
        incident = Incident(self.total, to, _identity(cause, frames))
        if cause not in self._causes:
            if len(self._causes) >= _CAUSES_MAX:
                self._causes.clear()
            self._causes.add(cause)
            note("ERR", _report(incident, error))
        return incident


# For whoever is not told otherwise: everything goes on to the caller.
UNCONTAINED = Containment()


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _reached(frame: FrameType, path: str) -> Casualty | None:
    """Return what a path of names leads to from a frame's variables, None when it leads nowhere."""
    first, *rest = path.split(".")
    found: Any = frame.f_locals.get(first)
    for name in rest:
        found = getattr(found, name, None)
    return cast(Casualty | None, found)


def _cause(error: Exception, frames: list[FrameType], domain: Domain) -> str:
    """Return what is the same for the same mistake in the code."""
    inner = frames[-1]
    lines = [trace.lineno for trace in traceback.extract_tb(error.__traceback__)[-1:]]
    return f"{domain.word} {type(error).__qualname__} {inner.f_code.co_qualname} {lines}"


def _identity(cause: str, frames: list[FrameType]) -> bytes:
    digest = hashlib.blake2b(cause.encode(), digest_size=16)
    for part in _input(frames):
        digest.update(b"%d " % len(part))
        digest.update(part)
    return digest.digest()


def _input(frames: list[FrameType]) -> Iterator[bytes]:
    """Return what was being worked on: the innermost message, stretch or request."""
    for frame in reversed(frames):
        given = frame.f_locals
        message: Any = given.get("message")
        run: Any = given.get("run")
        request: Any = given.get("request")
        if hasattr(message, "subject") and hasattr(message, "payload"):
            yield from (message.subject, message.headers, message.payload)
            return
        if hasattr(run, "fields"):
            start = given.get("index", given.get("start", 0))
            stop = start + 1 if "index" in given else given.get("stop", run.count)
            for index in range(start, min(stop, start + _MESSAGES_MAX, run.count)):
                yield from (run.subject(index), run.headers(index), run.payload(index))
            return
        if hasattr(request, "subject") and hasattr(request, "body"):
            yield from (request.subject, request.headers, request.body)
            return


def _report(incident: Incident, error: Exception) -> str:
    """Return what the log says: one line, and where it came up."""
    # The text of an exception may contain what a client has sent.
    text = repr(str(error))[:_TEXT_MAX]
    line = f"incident {incident.number} contained, {incident.domain.word} given up"
    places = "".join(traceback.format_tb(error.__traceback__)).rstrip("\n")
    return f"{line}: {type(error).__qualname__}: {text}\n{places}"
