"""Administrators make, change, pause, reset, unpin and delete consumers.

The names of consumers are never used twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.wire.go_time import format_time

from tests.sim import stream_options
from tests.sim.life import Life, Reader
from tests.sim.network import Frame
from tests.sim.program import Program
from tests.sim.stream_wishes import error_code

if TYPE_CHECKING:
    from tests.sim.workload import Workload

LIFE_READERS = 4
_NOT_FOUND = (10059, 10014)
_STORAGE_FAILED = 10051


def make_reader(workload: Workload, program: Program) -> None:
    """Create a consumer."""
    life = workload.some_life(program, lambda life: not life.is_leaving)
    if life is None:
        return
    if sum(not reader.is_gone for reader in life.readers.values()) >= LIFE_READERS:
        return
    name = f"C{workload.next_number()}"
    config = stream_options.reader_config(workload.random, life, name)
    reader = life.readers[name] = Reader(name, [config])

    def said(frame: Frame) -> None:
        if workload.counted("make reader", frame):
            reader.made_at = workload.now
        else:
            reader.is_gone = not reader.made_at

    body = {"stream_name": life.name, "config": config}
    program.ask_api(f"CONSUMER.CREATE.{life.name}.{name}", body, "make reader", said=said)


def _some_reader(workload: Workload, program: Program) -> tuple[Life, Reader] | None:
    readers = [pair for pair in workload.readers() if pair[0].account == program.account]
    return workload.random.choice(readers) if readers else None


def update_reader(workload: Workload, program: Program) -> None:
    """Change what may be changed of a consumer."""
    chosen = _some_reader(workload, program)
    if chosen is None:
        return
    life, reader = chosen
    random, config = workload.random, dict(reader.configs[-1])
    config["description"] = f"changed {workload.next_number()}"
    if life.retention == "limits" and random.random() < 0.5:
        config["filter_subjects"] = [stream_options.reader_filter(random, life)]
    if reader.policy != "none":
        config["max_ack_pending"] = random.choice([1000, 3, 20])
        if "backoff" not in config:
            config["ack_wait"] = random.choice([1, 2]) * SECOND
            config["max_deliver"] = random.choice([-1, 2, 5])
    reader.configs.append(config)
    body = {"stream_name": life.name, "config": config, "action": "update"}
    program.ask_api(
        f"CONSUMER.CREATE.{life.name}.{reader.name}", body, "update reader",
        said=lambda frame: workload.counted("update reader", frame),
    )  # fmt: skip


def pause_reader(workload: Workload, program: Program) -> None:
    """Pause a consumer for a while, or have it go on."""
    chosen = _some_reader(workload, program)
    if chosen is None:
        return
    life, reader = chosen
    until = workload.now + workload.random.randrange(-SECOND, 4 * SECOND)
    until -= until % 1_000_000
    # While an answer is on its way nobody knows whether it pauses.
    reader.paused = (0, 0)
    reader.pauses += 1
    is_said = False

    def said(frame: Frame) -> None:
        nonlocal is_said
        # It is said twice where the server does not know yet that one of two connections is gone.
        reader.pauses -= not is_said
        is_said = True
        # Answers of one turn to two connections are written in any order.
        is_certain = not reader.pauses and reader.pause_said_at < workload.now
        reader.pause_said_at = workload.now
        if workload.counted("pause reader", frame) and is_certain:
            reader.paused = workload.now, until

    body = {"pause_until": format_time(until)}
    program.ask_api(f"CONSUMER.PAUSE.{life.name}.{reader.name}", body, "pause", said=said)


def reset_reader(workload: Workload, program: Program) -> None:
    """Have a consumer start over, from a sequence or from behind what was acknowledged."""
    chosen = _some_reader(workload, program)
    if chosen is None:
        return
    life, reader = chosen
    random = workload.random
    body = {"seq": random.randrange(1, max(life.journal, default=1) + 5)}
    if random.random() < 0.4:
        body = {}
    reader.resets += 1
    reader.was_reset = True
    is_said = False

    def said(frame: Frame) -> None:
        nonlocal is_said
        reader.resets -= not is_said
        is_said = True
        reader.reset_at = workload.now
        # Where another file of the stream failed in the same flush it may have been carried out.
        if workload.counted("reset reader", frame) or error_code(frame) == _STORAGE_FAILED:
            reader.answered.clear()
            reader.forget_deliveries()

    program.ask_api(f"CONSUMER.RESET.{life.name}.{reader.name}", body, "reset", said=said)


def unpin_reader(workload: Workload, program: Program) -> None:
    """Have another client of a priority group chosen."""
    chosen = _some_reader(workload, program)
    if chosen is None or not chosen[1].group:
        return
    life, reader = chosen
    program.ask_api(
        f"CONSUMER.UNPIN.{life.name}.{reader.name}", {"group": reader.group}, "unpin",
        said=lambda frame: workload.counted("unpin reader", frame),
    )  # fmt: skip


def delete_reader(workload: Workload, program: Program) -> None:
    """Delete a consumer."""
    chosen = _some_reader(workload, program)
    if chosen is None:
        return
    life, reader = chosen
    reader.is_leaving = True

    def said(frame: Frame) -> None:
        if workload.counted("delete reader", frame) or error_code(frame) in _NOT_FOUND:
            reader.is_gone = True

    path = f"CONSUMER.DELETE.{life.name}.{reader.name}"
    program.ask_api(path, None, "delete reader", said=said)
