"""The other client: it pings and publishes at a steady rate, whatever somebody else does; or
clients sign in at a steady rate (`sign_ins.py`).

It sends by the clock and not when the last answer has come, and a wait is counted from when the
request should have gone out: so a server that says nothing for a second has kept waiting everybody
who came in that second, and not one request. It runs in a process of its own, ahead of others
where the system allows that, so that a client that works hard does not slow down the measurement:
what the two of them have of the processors is nothing that the server decides.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import selectors
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from benchmarks.stall.sign_ins import SignIns
from benchmarks.wire import INBOX_SID, LoadError, Wire

STREAM = "WITNESS"
_PERIOD_NS = 4_000_000  # a PING, and half of it later a publish
_START_S = 30.0
_ANSWER_S = 180.0  # within which what was asked last is answered
_NICE = -10


@dataclass(slots=True)
class Waits:
    """How long each request of the witness took, or each sign-in, in nanoseconds.

    Attributes:
        late_ns: by how much the witness itself was late at most when it sent a request, which is in
            that request's wait as well; of sign-ins it is not known.
    """

    pings_ns: list[int] = field(default_factory=list)
    publishes_ns: list[int] = field(default_factory=list)
    sign_ins_ns: list[int] = field(default_factory=list)
    late_ns: int = 0


class Witness:
    """A client in another process.

    Args:
        port: of the server.
        credentials: what CONNECT says besides, such as user and password.
        signs_in: whether it signs in again and again, instead of asking.
    """

    def __init__(self, port: int, credentials: dict[str, str], *, signs_in: bool = False) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(child, port, credentials, signs_in))
        self._process.start()
        child.close()
        self._take("ready")

    def begin(self) -> None:
        """Ask from now on."""
        self._pipe.send("begin")
        self._take("asking")

    def end(self) -> Waits:
        """Ask no more; return how long everything took, once all is answered."""
        self._pipe.send("end")
        waits = self._take("waits")
        assert isinstance(waits, Waits)
        return waits

    def _take(self, what: str) -> object:
        if not self._pipe.poll(_START_S + _ANSWER_S):
            raise LoadError(f"the witness does not answer ({what})")
        try:
            answer: object = self._pipe.recv()
        except EOFError:
            raise LoadError("the witness ended") from None
        if isinstance(answer, str) and answer != what:
            raise LoadError(f"the witness: {answer}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(pipe: Connection, port: int, credentials: dict[str, str], signs_in: bool) -> None:
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    try:
        with Wire(port, _ANSWER_S, credentials) as wire:
            wire.subscribe_inbox()
            wire.api(f"STREAM.CREATE.{STREAM}", _stream())
            pipe.send("ready")
            while pipe.recv() == "begin":
                pipe.send("asking")
                if signs_in:
                    waits_ns = SignIns(port, credentials, _ANSWER_S).run(pipe.poll)
                    pipe.recv()
                    pipe.send(Waits(sign_ins_ns=waits_ns))
                else:
                    pipe.send(_Asking(wire, pipe).run())
    except EOFError:
        pass
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


def _stream() -> dict[str, object]:
    return {"name": STREAM, "subjects": [STREAM], "storage": "memory", "max_msgs": 1000}


class _Asking:
    """One stretch of asking."""

    def __init__(self, wire: Wire, pipe: Connection) -> None:
        self._sock = wire.sock
        self._pipe = pipe
        self._publish = b"PUB %s %s.w 1\r\nx\r\n" % (STREAM.encode(), wire.inbox)
        self._delivery = b"MSG %s.w %d " % (wire.inbox, INBOX_SID)
        self._pings: deque[int] = deque()
        self._publishes: deque[int] = deque()
        self._waits = Waits()
        self._received = b""

    def run(self) -> Waits:
        selector = selectors.DefaultSelector()
        selector.register(self._sock, selectors.EVENT_READ)
        begun_ns = time.monotonic_ns()
        sent = 0
        last_ns: int | None = None
        with selector:
            while True:
                now_ns = time.monotonic_ns()
                if last_ns is None and self._pipe.poll():
                    self._pipe.recv()
                    last_ns = now_ns
                due_ns = begun_ns + sent * _PERIOD_NS // 2
                if last_ns is None:
                    self._waits.late_ns = max(self._waits.late_ns, now_ns - due_ns)
                while last_ns is None and due_ns <= now_ns:
                    self._ask(sent, due_ns)
                    sent += 1
                    due_ns = begun_ns + sent * _PERIOD_NS // 2
                if last_ns is not None:
                    if not self._pings and not self._publishes:
                        return self._waits
                    if now_ns > last_ns + int(_ANSWER_S * 1e9):
                        raise LoadError("no answer to a PING or a publish")
                if selector.select(max(0.0, (due_ns - now_ns) / 1e9) if last_ns is None else 1.0):
                    self._read()

    def _ask(self, number: int, due_ns: int) -> None:
        if number % 2:
            self._publishes.append(due_ns)
            self._sock.sendall(self._publish)
        else:
            self._pings.append(due_ns)
            self._sock.sendall(b"PING\r\n")

    def _read(self) -> None:
        data = self._sock.recv(65536)
        if not data:
            raise LoadError("the server closed the connection")
        now_ns = time.monotonic_ns()
        *lines, self._received = (self._received + data).split(b"\r\n")
        for line in lines:
            if line == b"PONG":
                self._waits.pings_ns.append(now_ns - self._pings.popleft())
            elif line.startswith(self._delivery):
                self._waits.publishes_ns.append(now_ns - self._publishes.popleft())
            elif line == b"PING":
                self._sock.sendall(b"PONG\r\n")
            elif line.startswith(b"-ERR"):
                raise LoadError(line.decode(errors="replace"))
