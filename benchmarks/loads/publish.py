"""Publishing to a stream: a window of unacknowledged messages a connection, or one at a time.

Frames are encoded once into a ring as long as the window. Each has a reply subject of its own, as
clients send them, so an ack names its message; subjects go round ten tokens. With `ids` each
message has a `Nats-Msg-Id` that was never there before, written into its frame when it is sent.
When the time is up the rest is awaited, and the stream must hold exactly as many messages as were
acknowledged.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks.bench import Bench, Case, LoadResult, Settings
from benchmarks.event_loop import EventLoop, Flow
from benchmarks.loads.percentiles import latency_figures
from benchmarks.loads.rate import measure_rate
from benchmarks.servers import GENUINE, GENUINE_ALWAYS, OURS, OURS_LAZY, Target
from benchmarks.wire import STREAM, LoadError, Wire

ALL_KINDS = (OURS, GENUINE, OURS_LAZY, GENUINE_ALWAYS)
SUBJECTS = 10
_ACK_MARKER = b'{"stream":"%s",' % STREAM.encode()
_ACK_END = b"}\r\n"
_FILL_WINDOW = 10_000
_ID_DIGITS = 14
_POWERS = 10 ** np.arange(_ID_DIGITS - 1, -1, -1)


class Publisher:
    """One connection that keeps `window` messages in flight."""

    def __init__(
        self, port: int, size: int, window: int, subjects: int = SUBJECTS, *, ids: bool = False
    ) -> None:
        wire = Wire(port)
        wire.subscribe_inbox()
        payload = b"x" * size
        width = len(str(subjects - 1))
        verb, sizes, block = b"PUB", b"%d" % size, b""
        if ids:
            block = b"NATS/1.0\r\nNats-Msg-Id: %s.%s\r\n\r\n" % (wire.inbox[-8:], b"0" * _ID_DIGITS)
            verb, sizes = b"HPUB", b"%d %d" % (len(block), len(block) + size)
        frames = [
            b"%s %s.%0*d %s.%08d %s\r\n%s%s\r\n"
            % (verb, STREAM.encode(), width, i % subjects, wire.inbox, i, sizes, block, payload)
            for i in range(max(window, subjects))
        ]
        self.flow = Flow(wire, _ACK_MARKER)
        self.flow.on_data = self._check_and_publish
        self.flow.on_drained = self.publish
        self.sent = 0
        self.frame_bytes = len(frames[0])
        self.limit: int | None = None
        self.window = window
        self._ring_length = len(frames)
        whole = bytearray(b"".join(frames))
        self._ring = memoryview(whole)
        self._id_digits = None
        if ids:
            stop = self.frame_bytes - size - len(b"\r\n\r\n\r\n")
            rows = np.frombuffer(whole, np.uint8).reshape(len(frames), self.frame_bytes)
            self._id_digits = rows[:, stop - _ID_DIGITS : stop]

    @property
    def acked(self) -> int:
        return self.flow.messages

    def publish(self) -> None:
        """Fill the window, unless the socket is still busy with what it was given."""
        while not self.flow.is_blocked:
            count = self.acked + self.window - self.sent
            if self.limit is not None:
                count = min(count, self.limit - self.sent)
            start = self.sent % self._ring_length
            count = min(count, self._ring_length - start)
            if count <= 0:
                return
            if self._id_digits is not None:
                numbers = np.arange(self.sent, self.sent + count)[:, np.newaxis]
                self._id_digits[start : start + count] = numbers // _POWERS % 10 + ord("0")
            self.sent += count
            self.flow.send(
                self._ring[start * self.frame_bytes : (start + count) * self.frame_bytes]
            )

    def _check_and_publish(self, buffer: bytearray, end: int) -> None:
        found = buffer.find(b'"error"', 0, end)
        if found < 0:
            found = buffer.find(b"-ERR", 0, end)
        if found >= 0:
            raise LoadError(f"a publish was refused: {bytes(buffer[found : found + 200])!r}")
        self.publish()


def publish(
    target: Target,
    settings: Settings,
    *,
    size: int,
    window: int,
    publishers: int = 1,
    ids: bool = False,
) -> LoadResult:
    """Publish for a while from `publishers` connections in one loop."""
    with Wire(target.port) as control:
        control.subscribe_inbox()
        control.create_stream()
        crowd = [Publisher(target.port, size, window, ids=ids) for _ in range(publishers)]
        bytes_max = settings.bytes_max // publishers
        for publisher in crowd:
            publisher.limit = max(window, bytes_max // publisher.frame_bytes)
        result = _publish_until(crowd, settings.seconds)
        if not target.is_null and (stored := control.message_count()) != result.messages:
            raise LoadError(f"{result.messages} messages were acked, {stored} are stored")
        control.delete_stream()
    return result


def _publish_until(crowd: list[Publisher], seconds: float) -> LoadResult:
    """Publish until the time is up or all limits are reached; the first part warms up."""
    loop = EventLoop([publisher.flow for publisher in crowd])
    started = time.perf_counter()
    for publisher in crowd:
        publisher.publish()

    def acked() -> int:
        return sum(publisher.acked for publisher in crowd)

    rate = measure_rate(
        loop, acked, seconds, limit=sum(publisher.limit or 0 for publisher in crowd)
    )
    for publisher in crowd:
        publisher.limit = publisher.sent
    sent = sum(publisher.sent for publisher in crowd)
    loop.run(lambda: acked() >= sent)
    if rate * seconds < 2 * sum(publisher.window for publisher in crowd):
        # So slow that what came in the time is a matter of luck: take all of it, to the last ack.
        rate = sent / (time.perf_counter() - started)
    for publisher in crowd:
        publisher.flow.wire.close()
    loop.close()
    return LoadResult({"rate": rate}, sent)


def fill(target: Target, count: int, size: int, subjects: int = SUBJECTS) -> None:
    """Store `count` messages; a null server pretends to have them."""
    if target.is_null:
        return
    publisher = Publisher(target.port, size, _FILL_WINDOW, subjects)
    publisher.limit = count
    loop = EventLoop([publisher.flow])
    publisher.publish()
    loop.run(lambda: publisher.acked >= count)
    publisher.flow.wire.close()
    loop.close()


def publish_synchronously(target: Target, settings: Settings, *, size: int) -> LoadResult:
    """Publish one message at a time, as `js.publish()` in a loop does."""
    with Wire(target.port) as control, Wire(target.port) as wire:
        control.subscribe_inbox()
        control.create_stream()
        wire.subscribe_inbox()
        frame = b"PUB %s.0 %s.00000000 %d\r\n%s\r\n"
        request = frame % (STREAM.encode(), wire.inbox, size, b"x" * size)
        result = exchange(wire, [request], _ACK_END, settings.seconds)
        control.delete_stream()
    return result


def exchange(wire: Wire, requests: list[bytes], end: bytes, seconds: float) -> LoadResult:
    """Send a request, wait for its answer, and again, going round `requests`.

    Args:
        end: what the answer ends with and contains nowhere else.
    """
    sock = wire.sock
    clock = time.perf_counter_ns
    elapsed_ns = []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for request in requests:
            before = clock()
            sock.sendall(request)
            answer = sock.recv(65536)
            while end not in answer:
                more = sock.recv(65536)
                if not more:
                    raise LoadError("the server closed the connection")
                answer += more
            elapsed_ns.append(clock() - before)
        if b'"error"' in answer:
            raise LoadError(f"a request was refused: {answer!r}")
    return LoadResult(latency_figures(elapsed_ns), len(elapsed_ns))


def benches() -> list[Bench]:
    """Rows 1 to 3: windows and sizes, several publishers, latency."""
    found = []
    for size in (16, 128, 1024, 16384):
        cases = tuple(
            Case(
                f"publish {size} B, window {window:,}",
                partial(publish, size=size, window=window),
            )
            for window in (100, 1_000, 5_000)
        )
        found.append(Bench(f"publish-{size}", cases, kinds=ALL_KINDS))
    cases = tuple(
        Case(
            f"publish 128 B, window 1,000, {publishers} publishers",
            partial(publish, size=128, window=1_000, publishers=publishers),
        )
        for publishers in (4, 32)
    )
    # With a sync for each message the genuine server would need minutes for these.
    found.append(Bench("publish-many", cases, kinds=(OURS, GENUINE, OURS_LAZY)))
    # Both on one server: what the ids cost is a ratio within a round.
    cases = (
        Case("publish 128 B without ids, window 5,000", partial(publish, size=128, window=5_000)),
        Case(
            "publish 128 B with ids, window 5,000",
            partial(publish, size=128, window=5_000, ids=True),
        ),
    )
    found.append(Bench("publish-ids", cases, kinds=(OURS, GENUINE)))
    case = Case("publish 128 B, one at a time", partial(publish_synchronously, size=128))
    found.append(Bench("publish-sync", (case,), kinds=ALL_KINDS))
    return found
