"""Clients publish batches: atomic ones, which are stored whole or not at all, and fast ones, which
are acknowledged every so many messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.life import Batch, Life, Published, block_of, require
from tests.sim.network import Frame
from tests.sim.program import Program, answer_of, pub
from tests.sim.publishing import new_message

if TYPE_CHECKING:
    from tests.sim.workload import Workload


def publish_atomically(workload: Workload, program: Program) -> None:
    """Publish an atomic batch, in one go or with pauses; some are never committed."""
    life = workload.some_life(program, lambda life: bool(life.config.get("allow_atomic")))
    if life is None:
        return
    random = workload.random
    batch = Batch(b"b%d" % workload.next_number())
    size = random.choice([1, 2, 5, 30])
    batch.is_committed = random.random() < 0.85
    ends_without = random.random() < 0.2  # the commit is no message itself
    frames: list[bytes] = []
    reply = b""
    for position in range(1, size + 1):
        is_last = position == size and batch.is_committed and not ends_without
        message = _member(workload, life, batch, position, is_last=is_last)
        if is_last:
            reply = _expect_commit(workload, program, life, batch)
        elif position == 1:
            reply = program.ask("batch begun").reply
        else:
            reply = b""
        frames.append(pub(message.subject, reply, message.headers, message.payload))
    if batch.is_committed and ends_without:
        headers = _batch_fields(batch, size + 1, b"eob")
        reply = _expect_commit(workload, program, life, batch)
        frames.append(pub(batch.messages[-1].subject, reply, block_of(headers), b""))
    if random.random() < 0.05 and size > 2:
        del frames[random.randrange(1, len(frames) - 1)]  # then nothing may be stored
        batch.is_committed = False
    cut = random.randrange(len(frames) + 1)
    program.send(b"".join(frames[:cut]))
    if random.random() < 0.3:
        rest = b"".join(frames[cut:])
        program.repeats.append(lambda: rest)
    else:
        program.send(b"".join(frames[cut:]))


def _batch_fields(batch: Batch, position: int, commit: bytes) -> list[tuple[bytes, bytes]]:
    fields = [(b"Nats-Batch-Id", batch.id), (b"Nats-Batch-Sequence", b"%d" % position)]
    return [*fields, (b"Nats-Batch-Commit", commit)] if commit else fields


def _member(
    workload: Workload, life: Life, batch: Batch, position: int, *, is_last: bool
) -> Published:
    message = new_message(workload, life, is_plain=True)
    fields = [*message.fields.items(), *_batch_fields(batch, position, b"1" if is_last else b"")]
    if workload.random.random() < workload.ids_share / 2:
        fields.append((b"Nats-Msg-Id", b"m%d" % message.uid))
    message.fields, message.headers = dict(fields), block_of(fields)
    message.batch = batch
    batch.messages.append(message)
    return message


def _expect_commit(workload: Workload, program: Program, life: Life, batch: Batch) -> bytes:
    def said(frame: Frame) -> None:
        if not frame.payload:
            return
        answer = answer_of(frame)
        if "error" in answer:
            workload.witness.count("refused batches")
            return
        workload.witness.count("atomic batches")
        require(answer["count"] == len(batch.messages), life.name, batch.id, answer)
        first = answer["seq"] - len(batch.messages) + 1
        for sequence, message in enumerate(batch.messages, first):
            workload.witness.acknowledged(life, sequence, message.uid)

    return program.ask("batch", said=said).reply


def publish_fast(workload: Workload, program: Program) -> None:
    """Publish a fast batch in one go, or leave it open."""
    life = workload.some_life(program, lambda life: bool(life.config.get("allow_batched")))
    if life is None:
        return
    random = workload.random
    messages = [
        new_message(workload, life, is_plain=True) for _ in range(random.choice([1, 4, 40]))
    ]
    gap = random.choice([b"ok", b"fail"])
    fast = _FastBatch(workload, life, messages)
    request = program.ask("fast batch", said=fast.said, arrived=fast.arrived)
    frames: list[bytes] = []
    ends = random.random() < 0.8
    for position, message in enumerate(messages, 1):
        op = 2 if ends and position == len(messages) else 0 if position == 1 else 1
        reply = b"%b.%d.%b.%d.%d.$FI" % (request.reply, random.choice([1, 10]), gap, position, op)
        frames.append(pub(message.subject, reply, message.headers, message.payload))
    if random.random() < 0.1:
        frames.pop(random.randrange(len(frames)))
        fast.is_complete = False
    program.send(b"".join(frames))


class _FastBatch:
    """What its publisher knows of a fast batch."""

    def __init__(self, workload: Workload, life: Life, messages: list[Published]) -> None:
        self.is_complete = True
        self._workload = workload
        self._life = life
        self._messages = messages
        self._refused: set[int] = set()

    def said(self, frame: Frame) -> None:
        """Believe an answer: what it acknowledges was stored, but for what was refused."""
        answer = answer_of(frame)
        kind = answer.get("type")
        if kind == "err":
            self._refused.add(answer["seq"])
        if kind == "ack" and self.is_complete:
            self._check(answer["seq"])
        if "batch" in answer and self.is_complete:
            self._workload.witness.count("fast batches")
            self._check(answer["count"])

    def _check(self, count: int) -> None:
        sequences = {entry.uid: sequence for sequence, entry in self._life.journal.items()}
        for position, message in enumerate(self._messages[:count], 1):
            if position not in self._refused:
                known = sequences.get(message.uid, 0)
                require(known, self._life.name, message.uid, "is acknowledged and not stored")
                self._workload.witness.acknowledged(self._life, known, message.uid)

    def arrived(self, frame: Frame) -> bool:
        """Tell whether the batch is over."""
        return b'"stream"' in frame.payload
