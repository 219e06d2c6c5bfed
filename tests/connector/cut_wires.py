"""Operations over wires that are slow, or cut at an exact place, for tests.

A wrapper is an operation itself: it lets the effects of another one through and, where its rule
says so, delays them or answers them with a broken connection instead of the outcome.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

from jetstream_spark.client.link import Link
from jetstream_spark.client.operation import Effect, Transfer, Until


def outgoing(effect: Effect) -> bytes:
    """What an effect is about to send."""
    return b"".join(effect.link.outgoing) if isinstance(effect, Transfer) else b""


def watched(
    operation: Generator[Any, Any, Any],
    before: Callable[[Effect], Iterable[Effect]] = lambda effect: (),
    after: Callable[[Effect], None] = lambda effect: None,
) -> Generator[Any, Any, Any]:
    """The same operation with somebody in between.

    Args:
        before: effects to carry out before this one.
        after: called when one was carried out; what it raises the operation gets.
    """
    try:
        effect = next(operation)
        while True:
            yield from before(effect)
            try:
                outcome = yield effect
                after(effect)
            except Exception as error:
                effect = operation.throw(error)
            else:
                effect = operation.send(outcome)
    except StopIteration as end:
        return end.value
    finally:
        operation.close()


def without_answer(
    operation: Generator[Any, Any, Any], is_lost: Callable[[bytes], bool], times: int = 1
) -> Generator[Any, Any, Any]:
    """Break the connection when the answer to a request has arrived, before anybody reads it.

    Args:
        is_lost: whether the answer to these bytes, sent in one transfer, is to be lost.
        times: how many answers.
    """
    doomed: set[Link] = set()
    left = [times]

    def note(effect: Effect) -> Iterable[Effect]:
        if left[0] and (sent := outgoing(effect)) and is_lost(sent):
            left[0] -= 1
            doomed.add(effect.link)
        return ()

    def cut(effect: Effect) -> None:
        receives = isinstance(effect, Transfer) and effect.until is Until.RECEIVED
        if receives and effect.link in doomed:
            raise ConnectionResetError("cut by the test")

    return watched(operation, note, cut)


class Stall:
    """A network that keeps what one connection sends, and delivers it long after it was closed.

    Args:
        is_held: whether the connection that sends these bytes stalls from here on.
    """

    def __init__(self, is_held: Callable[[bytes], bool]) -> None:
        self._is_held = is_held
        self._held = bytearray()
        self._socket: socket.socket | None = None
        self._link: Link | None = None
        self._holds = threading.Event()

    def through(self, operation: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same operation over this network."""
        return watched(operation, self._hold)

    def _hold(self, effect: Effect) -> Iterable[Effect]:
        sent = outgoing(effect)
        if sent and self._link is None and self._is_held(sent):
            self._link = effect.link
            self._socket = effect.link.carrier.socket.dup()
            self._holds.set()
        if sent and effect.link is self._link:
            self._held += sent
            effect.link.outgoing.clear()
        return ()

    def let_go_after(self, seconds: float, *, is_lost: bool = False) -> threading.Thread:
        """Let go so long after it began to stall; return the thread that does."""

        def wait() -> None:
            assert self._holds.wait(60), "nothing was held"
            time.sleep(seconds)
            self.let_go(is_lost=is_lost)

        thread = threading.Thread(target=wait)
        thread.start()
        return thread

    def let_go(self, *, is_lost: bool = False) -> None:
        """Deliver what was kept, unless it is lost; then the end of the connection. Return when
        the server has read all of it, and ended it too."""
        assert self._socket is not None, "nothing was held"
        with self._socket as kept:
            kept.settimeout(60)
            if not is_lost:
                kept.sendall(self._held)
            kept.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while kept.recv(65536):
                    pass
