"""Clients publish: plain messages, counters, schedules, messages that end, conditions, rollups.

Messages with an id are sent again until they are answered, as careful writers do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.wire.go_time import format_time

from tests.sim.life import Life, Published, block_of, require
from tests.sim.network import Frame
from tests.sim.program import Program, answer_of, pub
from tests.sim.stream_options import TOKENS

if TYPE_CHECKING:
    from tests.sim.workload import Workload

_Fields = list[tuple[bytes, bytes]]


def publish(workload: Workload, program: Program) -> None:
    """Publish some messages to a stream."""
    life = workload.some_life(program, lambda life: not life.is_mirror)
    if life is None:
        return
    count = workload.random.choice([1, 1, 3, 20])
    program.send(
        b"".join(
            publish_one(workload, program, life, new_message(workload, life)) for _ in range(count)
        )
    )


def new_message(workload: Workload, life: Life, *, is_plain: bool = False) -> Published:
    """Return a message that nobody has sent yet.

    Args:
        is_plain: without conditions, ids, and all that concerns other messages.
    """
    random, uid = workload.random, workload.next_number()
    subject = life.subject(random.choice(TOKENS))
    payload = b"%d:" % uid + b"x" * workload.payload_size()
    fields: _Fields = []
    if not is_plain:
        fields = _conditions(workload, life, uid, subject)
        if life.config.get("allow_msg_schedules") and random.random() < 0.15:
            subject, schedule = _schedule(workload, life)
            fields += schedule
    if life.config.get("allow_msg_ttl") and random.random() < 0.4:
        fields.append((b"Nats-TTL", random.choice([b"1", b"2", b"8", b"never"])))
    if life.config.get("allow_msg_counter"):
        fields = [pair for pair in fields if not pair[0].startswith(b"Nats-Expected")]
        increment = b"%d" % random.choice([1, 1, -3, 10**20])
        fields += [(b"Uid", b"%d" % uid), (b"Nats-Incr", increment)]
        payload = b""
    message = Published(uid, subject, block_of(fields), payload, dict(fields))
    workload.witness.published[uid] = message
    return message


def _conditions(workload: Workload, life: Life, uid: int, subject: bytes) -> _Fields:
    random, fields = workload.random, _Fields()
    if random.random() < workload.ids_share:
        fields.append((b"Nats-Msg-Id", b"m%d" % uid))
    if random.random() < 0.05:
        fields.append((b"Colour", b"red"))
    if random.random() < 0.04:
        expected = max(life.journal, default=0) + random.choice([0, 0, 1])
        fields.append((b"Nats-Expected-Last-Sequence", b"%d" % expected))
    elif random.random() < 0.04:
        last = [s for s, entry in life.journal.items() if entry.subject == subject]
        fields.append((b"Nats-Expected-Last-Subject-Sequence", b"%d" % max(last, default=0)))
    is_counter = life.config.get("allow_msg_counter")
    if life.config.get("allow_rollup_hdrs") and random.random() < 0.05 and not is_counter:
        fields.append((b"Nats-Rollup", random.choice([b"sub", b"sub", b"all"])))
    return fields


def _schedule(workload: Workload, life: Life) -> tuple[bytes, _Fields]:
    """Return the subject and the headers of a schedule."""
    random = workload.random
    subject = life.subject(b"s.%d" % random.randrange(6))
    fields = [(b"Nats-Schedule-Target", life.subject(random.choice(TOKENS)))]
    if random.random() < 0.6:
        due = workload.now + random.randrange(-SECOND, 6 * SECOND)
        due -= due % 1_000_000  # as it is written
        fields += [(b"Nats-Schedule", b"@at " + format_time(due).encode()), (b"Due", b"%d" % due)]
    else:
        fields.append((b"Nats-Schedule", b"@every %ds" % random.choice([1, 3])))
    return subject, fields


def publish_one(workload: Workload, program: Program, life: Life, message: Published) -> bytes:
    """Return the frame that publishes a message, and wait for its answer (mostly)."""
    reply = b""
    if message.message_id or workload.random.random() < 0.9:

        def said(frame: Frame) -> None:
            answer = answer_of(frame)
            require(answer["stream"] == life.name, "answered by another stream")
            if "error" in answer:
                workload.witness.count("refused publishes")
                return
            workload.witness.count("duplicates" if answer.get("duplicate") else "acks")
            workload.witness.acknowledged(life, answer["seq"], message.uid)

        def lost() -> None:
            if message.message_id and life.is_usable:
                program.repeats.append(lambda: publish_one(workload, program, life, message))

        reply = program.ask("publish", said=said, lost=lost).reply
    return pub(message.subject, reply, message.headers, message.payload)
