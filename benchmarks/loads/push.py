"""Push consumers with flow control, and the ordered consumer that clients build from one."""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Bench, Case, LoadResult, Settings
from benchmarks.delivery_flow import DeliveryFlow
from benchmarks.event_loop import EventLoop
from benchmarks.loads.pull import prepare
from benchmarks.loads.rate import measure_rate
from benchmarks.servers import Target
from benchmarks.wire import Wire

_SID = 2
_HEARTBEAT_NS = 5 * 10**9
# What makes a consumer an "ordered" one: no acks, no redelivery, its state only in memory.
ORDERED: dict[str, object] = {"max_deliver": 1, "mem_storage": True, "num_replicas": 1}


def push(target: Target, settings: Settings, *, is_ordered: bool) -> LoadResult:
    """Let the server push the stream; the flow answers its flow control at once."""
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
    flow = DeliveryFlow(wire)
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
