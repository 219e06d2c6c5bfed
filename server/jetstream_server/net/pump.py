"""The turn: the only scheduling code of the server.

1. Readable sockets have fed their sessions.
2. `node.run(now)`.
3. What is queued for the disk is carried there in a worker thread, one flush at a time, while the
   next turns pile up the next flush (group commit).
4. What was held back for a flush is released when that flush is durable.
5. Each touched socket is written once; those for which there is no time, in the next turns.
6. One timer is armed for the next deadline.

`intake.py` decides what is read from whom in step 1, and `handshakes.py` who gets that far.

A flush that fails releases nothing: everything that waited for it is dropped, and so is what has
been held back since, as that may report writes that were lost with the failed ones. So no client is
told of a write that is not there. Clients get no ack, as after a crash.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import Protocol

from jetstream_server.base.clock import SECOND, Clock
from jetstream_server.base.errors import StoreError
from jetstream_server.base.limits import UNFLUSHED_LOW_BYTES
from jetstream_server.net.busy_poll import BusyPoll
from jetstream_server.net.deflating import BYTES_OF_TURN, Deflating
from jetstream_server.net.departures import Departures
from jetstream_server.net.flush_worker import Failures, FlushWork, FlushWorker, Worker
from jetstream_server.net.handshakes import Handshakes
from jetstream_server.net.intake import Intake
from jetstream_server.net.read_buffer import ReadBuffer
from jetstream_server.net.readiness import Readiness
from jetstream_server.net.unwrapping import STEPS_OF_TURN, Unwrapping
from jetstream_server.net.write_order import share_out
from jetstream_server.node.node import Held, Node
from jetstream_server.node.session import Session
from jetstream_server.store.disk.commit import Flush, GroupCommit

# Written in a turn, to all sockets together: what a flush releases for forty clients may be much,
# and every byte is copied several times, which takes 3 ms for a megabyte.
WRITTEN_BYTES_MAX = 4 * 1024 * 1024
# By the clock as well: a megabyte takes several times as long where the system has yet to find the
# memory for it. It is looked at after each piece for a client that takes several, and whenever so
# much is written.
WRITTEN_NS = 5_000_000
WRITTEN_TIMED_BYTES_MIN = 64 * 1024
# As soon as a flush is over: to all together, and to whom. The rest is for the next turn, as the
# loop may have come from one to this without looking at sockets.
WRITTEN_AFTER_FLUSH_BYTES_MAX = 256 * 1024
AFTER_FLUSH_OF_ONE_BYTES_MAX = 128 * 1024
WRITTEN_LATE_BYTES_MIN = 4096  # who is to be sent no more does not wait for those with much
# To so many clients, each of which takes 10 to 25 microseconds.
WRITTEN_CLIENTS_MAX = 400
WRITTEN_AFTER_FLUSH_CLIENTS_MAX = 200
# Connections that are closed at once: to forget a client takes the time of some operations.
CLOSED_AT_ONCE_MAX = 100


class Connection(Protocol):
    """The socket of one session."""

    def write_output(self, over_at: int) -> int:
        """Write some of the session's outbox until then, and tell how much; close afterwards if the
        session says so."""
        ...

    def close(self) -> None:
        """Close after what is written has gone out."""
        ...


class Pump:
    """Runs a node on an event loop.

    Args:
        node: the server to run.
        commit: the queue in front of the disk, None for a server that stores nothing.
        clock: where `now` comes from.
        failed: told once when the pump itself meets an error of our own.
        worker: where flushes run; without one, in a thread of the pump's own.
        busy_poll_ns: how long the loop stays awake for a client that waits for each answer.

    Attributes:
        is_turn_due: the loop has been asked for one.
    """

    def __init__(
        self,
        node: Node,
        commit: GroupCommit | None,
        clock: Clock,
        failed: Callable[[BaseException], None],
        worker: Worker | None = None,
        busy_poll_ns: int = 0,
    ) -> None:
        self.node = node
        self.clock = clock
        self.connections: dict[Session, Connection] = {}
        self.intake = Intake()  # how much clients may send before they have to wait
        self.read_buffer = ReadBuffer()
        self.unwrapping = Unwrapping(STEPS_OF_TURN, self.wake)
        self.deflating = Deflating(BYTES_OF_TURN)
        self.handshakes = Handshakes(self.wake)  # how many of them go on in a turn
        self.departures = Departures(self.wake)  # how many of those that are lost leave in a turn
        self._commit = commit
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self.readiness = Readiness(self._loop, clock, self.connections)  # of clients that are many
        self._worker = worker or FlushWorker(self._loop)
        self._busy_poll = (
            BusyPoll(self._loop, clock, self.intake, busy_poll_ns) if busy_poll_ns > 0 else None
        )
        self.is_turn_due = False
        self._timer: asyncio.TimerHandle | None = None  # for the next deadline of node and disk
        self._timer_at = 0  # nanoseconds since the epoch
        self._flushing = False  # the worker has a flush
        self._is_stopping = False
        self._waiting: Held = []  # output that waits for a later flush than the one under way
        self._noted: set[str] = set()  # failures of the last flush, as they were logged
        self._quiet: asyncio.Event = asyncio.Event()  # set while the worker has no flush
        self._quiet.set()

    def wake(self) -> None:
        """Have a turn as soon as the sockets readable now have been read."""
        if not self.is_turn_due:
            self.is_turn_due = True
            self._loop.call_soon(self._turn)

    def rest(self) -> bool:
        """Have streams at rest release memory; tell whether any did."""
        if not self.node.rest():
            return False
        self.wake()
        return True

    def _turn(self) -> None:
        self.is_turn_due = False
        try:
            now = self.clock.now()
            if self._busy_poll is not None:
                self._busy_poll.turn_began(now)
            workload = self.node.workload
            workload.is_held = self._flushing and self._is_crowded
            self.node.run(now)
            self._flush_or_release(now)
            self._write(now, WRITTEN_CLIENTS_MAX, WRITTEN_BYTES_MAX)
            if self.read_buffer.is_used:
                self.read_buffer.begin()
            if self.deflating.is_used:
                self.deflating.begin()
            unflushed_bytes = 0 if self._commit is None else self._commit.awaited_bytes
            workload.is_flooded = unflushed_bytes > UNFLUSHED_LOW_BYTES
            self.intake.turned(unflushed_bytes)
            if self.unwrapping.is_used:
                self.unwrapping.turned()
            if self.handshakes.is_used:
                self.handshakes.turned()
            if self.departures.is_used:
                self.departures.turned(is_busy=self.readiness.is_behind)
            self.readiness.is_behind = False  # until the next look
            self._arm(now)
            if self._busy_poll is not None and not self._flushing:
                self._busy_poll.answered()
            if workload.was_long:
                # What is new is looked at by its number only: a few lists of fifty thousand filters
                # each are as good as nothing until they are looked at together, in 50 ms.
                gc.collect(1)
        except Exception as error:
            self._failed(error)
            raise

    @property
    def _is_crowded(self) -> bool:
        """Return whether the disk already has enough to do after the flush under way."""
        return self._commit is not None and self._commit.is_crowded

    # -- the disk ----------------------------------------------------------------------------

    def _flush_or_release(self, now: int) -> None:
        if self._flushing or self._is_stopping:
            return
        commit, flush, is_written = self._commit, None, False
        if commit is not None:
            is_written = commit.lazily_ns > 0 and commit.write_through(now)
            if not is_written:
                flush = commit.take(now)
        if flush is not None:
            self._waiting += self.node.take_held()
            held, self._waiting = self._waiting, []
            if not flush.is_quick:
                self._start(flush, held)
                return
            self._complete(flush, held, flush.run(), now)
        elif commit is not None and commit.is_stalled:
            # The disk is full; what waits for it goes on waiting, but whoever makes room does not.
            self.node.workload.promises.forget()
            return
        elif self._waiting or self.node.has_held:
            held, self._waiting = self._waiting + self.node.take_held(), []
            self.node.release(held, now)
        elif not is_written:
            return  # there was nothing to do
        # A release can set off more: deliveries that go on, a republished message that another
        # stream stores. Its turn is the next one, so that clients have work meanwhile.
        if self.node.has_held or (commit is not None and commit.has_fresh):
            self.wake()

    def _start(self, flush: Flush, held: Held) -> None:
        self._flushing = True
        self._quiet.clear()
        write = flush.only_write()
        if write is None:
            self._carry_out(flush.run, flush, held)
        else:
            self._worker.write(*write, lambda *errnos: self._written(flush, held, *errnos))

    def _carry_out(self, work: FlushWork, flush: Flush, held: Held) -> None:
        self._worker.run(work, lambda failures, error: self._flushed(flush, held, failures, error))

    def _written(self, flush: Flush, held: Held, write_errno: int, sync_errno: int) -> None:
        if write_errno or sync_errno:  # to make room takes as long as anything on the disk
            self._carry_out(partial(flush.wrote, write_errno, sync_errno), flush, held)
        else:
            self._flushed(flush, held, flush.wrote(0, 0), None)

    def _flushed(
        self, flush: Flush, held: Held, failures: Failures, error: BaseException | None
    ) -> None:
        assert self._commit is not None
        self._flushing = False
        self._quiet.set()
        if error is not None:
            self._failed(error)
            return
        try:
            now = self.clock.now()
            self._complete(flush, held, failures, now)
            self._flush_or_release(now)
            self.node.workload.is_held = self._flushing and self._is_crowded
            self._write(
                now,
                WRITTEN_AFTER_FLUSH_CLIENTS_MAX,
                WRITTEN_AFTER_FLUSH_BYTES_MAX,
                AFTER_FLUSH_OF_ONE_BYTES_MAX,
            )
            unflushed_bytes = self._commit.awaited_bytes
            self.node.workload.is_flooded = unflushed_bytes > UNFLUSHED_LOW_BYTES
            self.intake.flushed(unflushed_bytes)
            self._arm(now)
            if self._busy_poll is not None and not self._flushing:
                self._busy_poll.answered()
        except Exception as unexpected:
            self._failed(unexpected)
            raise

    def _note_failures(self, failures: list[StoreError]) -> None:
        """Log each failure when it begins; a full disk fails again with every retry."""
        assert self._commit is not None
        full, was_full = self._commit.full, self.node.disk_full
        self.node.disk_full = str(full) if full is not None else ""
        if not failures and not self._noted and full is None:
            return
        texts = {f"JetStream storage: {failure}" for failure in failures}
        if full is not None:
            texts.add(f"JetStream storage: {full}")
        for text in sorted(texts - self._noted):
            self.node.note("ERR", text)
        if was_full and full is None:
            self.node.note("INF", "JetStream storage: there is room on the disk again")
        self._noted = texts

    def _complete(self, flush: Flush, held: Held, failures: Failures, now: int) -> None:
        """Take back a flush that has been run, and send what waited for it."""
        assert self._commit is not None
        self._commit.complete(flush)
        is_well = not (failures or self._noted or self._commit.full or self.node.disk_full)
        if is_well and not self._commit.is_stalled:  # as nearly always
            self.node.release(held, now)
            return
        self._note_failures([failure for _, failure in failures])
        refused = {operation.owner for operation in flush.stalled}
        if any(owner not in refused for owner, _ in failures):
            # The writes of its owner are lost, including those queued meanwhile.
            lost, self._waiting = held + self._waiting + self.node.take_held(), []
            self.node.drop(lost)
        elif self._commit.is_stalled:
            self._waiting = held + self._waiting
            self.node.workload.promises.forget()
        elif failures:
            # What the disk refused is removed, and not tried again: that goes with the next flush.
            self._waiting = held + self._waiting
        else:
            self.node.release(held, now)

    # -- sockets and timers ------------------------------------------------------------------

    def _write(
        self, now: int, clients_max: int, bytes_max: int, of_one_max: int = sys.maxsize
    ) -> None:
        left, closings = bytes_max, CLOSED_AT_ONCE_MAX
        sessions = self.node.take_touched()
        over_at, untimed_bytes = self.clock.now() + WRITTEN_NS, 0
        late: dict[Session, None] = {}
        if len(sessions) > clients_max:
            sessions, late = share_out(sessions, clients_max)
        for session in sessions:
            connection = self.connections.get(session)
            if connection is None:
                continue
            if left <= 0 or of_one_max < sys.maxsize:
                unsent_bytes = session.outbox.unsent_bytes
                is_much = unsent_bytes > WRITTEN_LATE_BYTES_MIN
                if is_much and (left <= 0 or unsent_bytes > of_one_max):
                    late[session] = None
                    continue
            if session.closing:
                if closings <= 0:
                    late[session] = None
                    continue
                closings -= 1
            try:
                written_bytes = connection.write_output(over_at)
            except Exception as error:
                self.node.containment.contain(error, now)
                continue
            left -= written_bytes
            untimed_bytes += written_bytes
            if untimed_bytes >= WRITTEN_TIMED_BYTES_MIN:
                untimed_bytes = 0
                if self.clock.now() >= over_at:
                    left = 0
        if late:
            self.node.put_off(late)
            self.wake()

    def _arm(self, now: int) -> None:
        deadline = self.node.next_deadline()
        if not self._flushing and self._commit is not None:
            of_disk = self._commit.next_deadline()
            if of_disk is not None and (deadline is None or of_disk < deadline):
                deadline = of_disk
        if self._timer is not None:
            if deadline == self._timer_at:
                return
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer_at = deadline
            self._timer = self._loop.call_later(max(0, deadline - now) / SECOND, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.wake()

    # -- end ---------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop the node, write everything out, and wait for the disk."""
        # What streams send to one another may never end, and each flush be followed by the next.
        self._is_stopping = True
        while self._flushing:
            await self._quiet.wait()
        now = self.clock.now()
        self.departures.finish()
        self.node.stop(now)
        if self._commit is not None:
            failures = await self._drain(self._commit)
            for _, failure in failures:
                self.node.note("ERR", f"JetStream storage: {failure}")
            if not failures:
                self.node.release(self._waiting + self.node.take_held(), now)
        else:
            self.node.release(self._waiting + self.node.take_held(), now)
        while self.node.touched:
            self._write(now, WRITTEN_CLIENTS_MAX, WRITTEN_BYTES_MAX)
        if self._timer is not None:
            self._timer.cancel()
        self._worker.stop()
        self.readiness.close()

    async def _drain(self, commit: GroupCommit) -> Failures:
        """Carry everything to the disk, through the worker as well: the loop goes on until the
        end."""
        found: Failures = []

        def drained(failures: Failures, error: BaseException | None) -> None:
            found.extend(failures)
            self._flushing = False
            self._quiet.set()
            if error is not None:
                self._failed(error)

        self._flushing = True  # turns that clients still set off leave the disk alone
        self._quiet.clear()
        self._worker.run(commit.drain, drained)
        await self._quiet.wait()
        return found
