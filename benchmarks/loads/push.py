"""Push consumers with flow control, and the ordered consumer that clients build from one."""

from __future__ import annotations

import re
from functools import partial

from benchmarks.bench import Bench, Case, LoadResult, Settings
from benchmarks.event_loop import EventLoop, Flow
from benchmarks.loads.pull import prepare
from benchmarks.loads.rate import measure_rate
from benchmarks.servers import Target
from benchmarks.wire import STREAM, Wire

_SID = 2
_FLOW_CONTROL = b"$JS.FC."
_FLOW_REPLY = re.compile(rb"(\$JS\.FC\.\S+) \d+ \d+\r\n")
_HEARTBEAT_NS = 5 * 10**9
# What makes a consumer an "ordered" one: no acks, no redelivery, its state only in memory.
ORDERED: dict[str, object] = {"max_deliver": 1, "mem_storage": True, "num_replicas": 1}


def push(target: Target, settings: Settings, *, is_ordered: bool) -> LoadResult:
    """Let the server push the stream; answer its flow control at once."""
    wire = Wire(target.port)
    wire.subscribe_inbox()
    subject = b"push." + wire.inbox[7:]
    name = "PUSH"
    settings_of_both: dict[str, object] = {
        "ack_policy": "none",
        "deliver_subject": subject.decode(),
        "flow_control": True,
        "idle_heartbeat": _HEARTBEAT_NS,
    }
    wire.create_consumer(name, **settings_of_both, **(ORDERED if is_ordered else {}))
    # Only now: what comes behind an API answer is not counted.
    wire.subscribe(subject, _SID)
    flow = Flow(wire, b"$JS.ACK.%s.%s.1." % (STREAM.encode(), name.encode()))
    tail = b""

    def answer_flow_control(buffer: bytearray, end: int) -> None:
        # A request may be cut in two by the end of a chunk; what was carried over is in the tail.
        nonlocal tail
        received_end = tail + buffer[flow.carried : min(end, flow.carried + 256)]
        for reply in set(_FLOW_REPLY.findall(received_end)):
            flow.send(b"PUB %s 0\r\n\r\n" % reply)
        if buffer.find(_FLOW_CONTROL, flow.carried, end) >= 0:
            for reply in _FLOW_REPLY.findall(buffer, flow.carried, end):
                flow.send(b"PUB %s 0\r\n\r\n" % reply)
        tail = bytes(buffer[max(flow.carried, end - 256) : end])

    flow.on_data = answer_flow_control
    loop = EventLoop([flow])
    rate = measure_rate(
        loop, lambda: flow.messages, settings.seconds, limit=settings.stored_messages
    )
    wire.close()
    loop.close()
    if not target.is_null:
        with Wire(target.port) as control:
            control.subscribe_inbox()
            control.delete_consumer(name)
    return LoadResult({"rate": rate}, flow.messages)


def benches() -> list[Bench]:
    """Row 5."""
    cases = (
        Case("push 128 B, flow control", partial(push, is_ordered=False)),
        Case("ordered consumer 128 B", partial(push, is_ordered=True)),
    )
    return [Bench("push", cases, partial(prepare, size=128))]
