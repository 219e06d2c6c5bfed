"""Direct gets: by sequence and the last of a subject, one at a time and a hundred in flight."""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Bench, Case, LoadResult, Settings
from benchmarks.event_loop import EventLoop, Flow
from benchmarks.loads.publish import SUBJECTS, exchange
from benchmarks.loads.pull import prepare
from benchmarks.loads.rate import measure_rate
from benchmarks.servers import Target
from benchmarks.wire import STREAM, LoadError, Wire

WINDOW = 100
_REQUESTS = 1_000
_MARKER = b"Nats-Sequence: "
_PAYLOAD_END = b"xx\r\n"
_GET = b"PUB $JS.API.DIRECT.GET.%s%s %s.direct %d\r\n%s\r\n"


def _requests(wire: Wire, settings: Settings, by_subject: bool) -> list[bytes]:
    """Spread requests over the stream, each frame a different one."""
    name = STREAM.encode()
    if by_subject:
        return [
            _GET % (name, b".%s.%d" % (name, i % SUBJECTS), wire.inbox, 0, b"")
            for i in range(_REQUESTS)
        ]
    bodies = [b'{"seq":%d}' % (1 + i * 7919 % settings.stored_messages) for i in range(_REQUESTS)]
    return [_GET % (name, b"", wire.inbox, len(body), body) for body in bodies]


def get_one_by_one(target: Target, settings: Settings, *, by_subject: bool) -> LoadResult:
    """Measure latency."""
    with Wire(target.port) as wire:
        wire.subscribe_inbox()
        requests = _requests(wire, settings, by_subject)
        return exchange(wire, requests[:50], _PAYLOAD_END, settings.seconds)


def get_in_window(target: Target, settings: Settings, *, by_subject: bool) -> LoadResult:
    """Keep a window of requests in flight."""
    wire = Wire(target.port)
    wire.subscribe_inbox()
    requests = _requests(wire, settings, by_subject)
    groups = [b"".join(requests[i : i + WINDOW]) for i in range(0, _REQUESTS, WINDOW)]
    flow = Flow(wire, _MARKER)
    sent = 0

    def ask() -> None:
        nonlocal sent
        # Half a window at least a time, or the load would spend its time on small writes.
        while sent - flow.messages <= WINDOW // 2:
            flow.send(groups[sent // WINDOW % len(groups)])
            sent += WINDOW

    def check_and_ask(buffer: bytearray, end: int) -> None:
        if buffer.find(b"NATS/1.0 4", 0, end) >= 0:
            raise LoadError("a direct get found nothing")
        ask()

    flow.on_data = check_and_ask
    loop = EventLoop([flow])
    ask()
    rate = measure_rate(loop, lambda: flow.messages, settings.seconds)
    wire.close()
    loop.close()
    return LoadResult({"rate": rate}, flow.messages)


def benches() -> list[Bench]:
    """Row 6."""
    cases = []
    for by_subject in (False, True):
        what = "last by subject" if by_subject else "by sequence"
        cases += [
            Case(
                f"direct get {what}, one at a time",
                partial(get_one_by_one, by_subject=by_subject),
            ),
            Case(
                f"direct get {what}, {WINDOW} in flight",
                partial(get_in_window, by_subject=by_subject),
            ),
        ]
    return [Bench("direct", tuple(cases), partial(prepare, size=128))]
