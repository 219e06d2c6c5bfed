"""Clients read: they pull, listen, acknowledge, or do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from jetstream_server.base.clock import SECOND

from tests.sim.life import Life, Reader, fields_of
from tests.sim.network import Frame
from tests.sim.program import Program, Pull, Request, pub, sub

if TYPE_CHECKING:
    from tests.sim.workload import Workload

_NAKS = (b"-NAK", b'-NAK {"delay": 700000000}')
_PULLS_MAX = 20


def pull(workload: Workload, program: Program) -> None:
    """Pull from some consumer."""
    chosen = _some_reader(workload, program, is_push=False)
    if chosen is not None and len(program.pulls) < _PULLS_MAX:
        pull_from(workload, program, *chosen)


def _some_reader(
    workload: Workload, program: Program, *, is_push: bool
) -> tuple[Life, Reader] | None:
    readers = [
        pair
        for pair in workload.readers()
        if pair[1].is_push == is_push and pair[0].account == program.account
    ]
    return workload.random.choice(readers) if readers else None


def pull_from(workload: Workload, program: Program, life: Life, reader: Reader) -> None:
    """Send a pull request with an inbox and a subscription of its own."""
    random = workload.random
    sid = b"%d" % (1000 + workload.next_number())
    inbox = b"_PULL.p%d.%b" % (program.number, sid)
    batch = random.choice([1, 5, 50])
    body: dict[str, Any] = {"batch": batch, "expires": random.choice([1, 2]) * SECOND}
    if random.random() < 0.2:
        body["no_wait"] = True
    if random.random() < 0.2:
        body["max_bytes"] = random.choice([100, 2000])
    if random.random() < 0.1:
        body["idle_heartbeat"] = SECOND // 2
    body |= _priority(workload, program, reader)
    request = Request("pull", program, inbox, workload.now + 4 * SECOND)
    pulled = Pull(request, life, reader, sid, batch, must_end=workload.is_calm)

    def arrived(frame: Frame) -> bool:
        if frame.status == b"423":  # somebody else has the pin
            program.pins.pop(reader.name, None)
        return end_pull(workload, pulled)

    request.arrived = arrived
    program.requests[inbox] = workload.requests[inbox] = request
    program.pulls[sid] = pulled
    path = f"$JS.API.CONSUMER.MSG.NEXT.{life.name}.{reader.name}".encode()
    program.send(b"SUB %b %b\r\n" % (inbox, sid) + pub(path, inbox, b"", orjson.dumps(body)))


def _priority(workload: Workload, program: Program, reader: Reader) -> dict[str, Any]:
    """Return what a pull says about its priority group."""
    random, asked = workload.random, dict[str, Any]()
    if not reader.group:
        return asked
    asked["group"] = reader.group
    policy = reader.config["priority_policy"]
    if policy == "prioritized":
        asked["priority"] = random.randrange(3)
    elif policy == "overflow" and random.random() < 0.5 and not workload.is_calm:
        asked["min_pending"] = random.randrange(1, 20)
    elif policy == "pinned_client" and (pin := program.pins.get(reader.name)):
        asked["id"] = pin
    return asked


def end_pull(workload: Workload, pulled: Pull) -> bool:
    """A pull is over."""
    program = pulled.request.program
    pulled.must_end = False
    if pulled.sid in program.pulls:
        program.send(b"UNSUB %b\r\n" % pulled.sid)
    workload.give_up(pulled.request)
    program.pulls.pop(pulled.sid, None)
    return True


def listen(workload: Workload, program: Program) -> None:
    """Listen to a push consumer, or cease to."""
    chosen = _some_reader(workload, program, is_push=True)
    if chosen is None:
        return
    _, reader = chosen
    sids = [sid for sid, (other, _) in program.pushes.items() if other is reader]
    if sids and workload.random.random() < 0.5:
        del program.pushes[sids[0]]
        program.send(b"UNSUB %b\r\n" % sids[0])
    else:
        listen_to(workload, program, reader)


def listen_to(workload: Workload, program: Program, reader: Reader) -> None:
    """Listen to a push consumer, unless somebody does who shall be alone."""
    queue = str(reader.config.get("deliver_group", "")).encode()
    for each in workload.programs:
        for other, _ in each.pushes.values():
            if other is reader and (each is program or not queue):
                return
    sid = b"%d" % (1000 + workload.next_number())
    program.pushes[sid] = (reader, queue)
    program.send(sub(reader, queue, sid))


def delivery_arrived(workload: Workload, program: Program, frame: Frame) -> None:
    """Acknowledge a message, one way or another, or not at all."""
    pulled = program.pulls.get(frame.sid)
    if pulled is not None:
        pulled.left -= 1
        if not pulled.left:
            end_pull(workload, pulled)
    tokens = frame.reply.split(b".")
    life = workload.witness.life(program.account, tokens[2].decode())
    reader = life.readers.get(tokens[3].decode()) if life is not None else None
    if life is None or reader is None:
        return
    if pin := fields_of(frame.headers).get(b"Nats-Pin-Id"):
        program.pins[reader.name] = pin.decode()
    if reader.policy == "none":
        return
    sequence, chance = int(tokens[5]), workload.random.random()
    if workload.is_calm or chance < 0.35:
        _ack(workload, program, life, reader, sequence, frame.reply, b"+ACK", is_asked=True)
    elif chance < 0.6:
        _ack(workload, program, life, reader, sequence, frame.reply, b"", is_asked=False)
    elif chance < 0.68:
        program.send(pub(frame.reply, b"", b"", workload.random.choice(_NAKS)))
    elif chance < 0.72:
        program.send(pub(frame.reply, b"", b"", b"+WPI"))
    elif chance < 0.76 and reader.policy == "explicit":
        _ack(workload, program, life, reader, sequence, frame.reply, b"+TERM", is_asked=True)


def _ack(
    workload: Workload, program: Program, life: Life, reader: Reader, sequence: int, to: bytes,
    body: bytes, *, is_asked: bool,
) -> None:  # fmt: skip
    reader.acks.add(sequence)
    reply = b""

    def said(frame: Frame) -> None:
        # A termination of a message that was given up on changes nothing (as in NATS).
        if body == b"+TERM" and reader.may_give_up:
            return
        if reader.was_reset:  # it may have come before the reset, and count for nothing
            return
        reader.answered.setdefault(sequence, workload.now)
        if life.retention == "workqueue":
            life.gone.add(sequence)

    if is_asked:
        reply = program.ask("ack", said=said).reply
    program.send(pub(to, reply, b"", body))
