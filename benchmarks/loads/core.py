"""Core NATS: one publisher to 1, 10 or 100 subscribers, and request-reply latency.

The publisher never runs further ahead of the slowest subscriber than a few MiB, so that no server
has to call anybody a slow consumer. Rates are messages delivered a second.
"""

from __future__ import annotations

import time
from functools import partial

from benchmarks.bench import Bench, Case, LoadResult, Settings
from benchmarks.event_loop import EventLoop, Flow
from benchmarks.loads.percentiles import latency_figures
from benchmarks.loads.rate import measure_rate
from benchmarks.servers import Target
from benchmarks.wire import LoadError, Wire

SUBJECT = b"bench.core"
_AHEAD_BYTES = 4 << 20
_RING_BYTES = 1 << 18
_SID = 5


def fan_out(target: Target, settings: Settings, *, size: int, subscribers: int) -> LoadResult:
    """Publish to so many subscribers."""
    frame = b"PUB %s %d\r\n%s\r\n" % (SUBJECT, size, b"x" * size)
    delivered_bytes = len(b"MSG %s %d %d\r\n" % (SUBJECT, _SID, size)) + size + 2
    frame_count = max(1, _RING_BYTES // len(frame))
    ring = memoryview(frame * frame_count)
    ahead = max(frame_count, _AHEAD_BYTES // subscribers // len(frame))
    crowd = []
    for _ in range(subscribers):
        wire = Wire(target.port)
        wire.subscribe(SUBJECT, _SID)
        wire.ping()
        crowd.append(Flow(wire, frame_bytes=delivered_bytes))
    publisher = Flow(Wire(target.port), b"-ERR")
    sent = 0
    is_open = True

    def publish() -> None:
        nonlocal sent
        slowest = min(flow.messages for flow in crowd)
        while is_open and not publisher.is_blocked and sent - slowest <= ahead:
            sent += frame_count
            publisher.send(ring)

    def on_data(buffer: bytearray, end: int) -> None:
        publish()

    # One subscriber is enough to keep the publisher going; asking for all would cost their square.
    crowd[-1].on_data = on_data
    publisher.on_drained = publish
    loop = EventLoop([*crowd, publisher])
    publish()

    def count() -> int:
        return sum(flow.messages for flow in crowd)

    def count_and_publish() -> int:
        # The subscriber that publishes may be ahead of the others; then nobody else would go on.
        publish()
        return count()

    rate = measure_rate(loop, count_and_publish, settings.seconds)
    is_open = False
    loop.run(lambda: count() >= sent * subscribers)
    for flow in [*crowd, publisher]:
        flow.wire.close()
    loop.close()
    return LoadResult({"rate": rate}, sent * subscribers)


def request_reply(target: Target, settings: Settings, *, size: int) -> LoadResult:
    """Measure a request through the server to a responder and back."""
    end = b"x\r\n"
    with Wire(target.port) as requester, Wire(target.port) as responder:
        requester.subscribe_inbox()
        responder.subscribe(SUBJECT, _SID)
        responder.ping()
        requester.ping()
        reply = requester.inbox + b".1"
        request = b"PUB %s %s %d\r\n%s\r\n" % (SUBJECT, reply, size, b"x" * size)
        answer = b"PUB %s %d\r\n%s\r\n" % (reply, size, b"x" * size)
        elapsed_ns = []
        stop = time.perf_counter() + settings.seconds
        while time.perf_counter() < stop:
            before = time.perf_counter_ns()
            requester.sock.sendall(request)
            _receive(responder, end)
            responder.sock.sendall(answer)
            _receive(requester, end)
            elapsed_ns.append(time.perf_counter_ns() - before)
    return LoadResult(latency_figures(elapsed_ns), len(elapsed_ns))


def _receive(wire: Wire, end: bytes) -> None:
    received = wire.sock.recv(65536)
    while end not in received:
        more = wire.sock.recv(65536)
        if not more:
            raise LoadError("the server closed the connection")
        received += more


def benches() -> list[Bench]:
    """Row 7."""
    cases = [
        Case(f"core publish 128 B, 1:{count}", partial(fan_out, size=128, subscribers=count))
        for count in (1, 10, 100)
    ]
    cases.append(Case("request-reply 128 B", partial(request_reply, size=128)))
    return [Bench("core", tuple(cases))]
