"""Administrators make, change and delete streams, and look at and remove messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from tests.sim import stream_options
from tests.sim.life import Life, Removal
from tests.sim.network import Frame
from tests.sim.program import PATIENCE_NS, Program, answer_of, pub

if TYPE_CHECKING:
    from tests.sim.workload import Workload

_NOT_FOUND = 10059


def free_name(workload: Workload, program: Program) -> str | None:
    """Return a name under which a stream may be made now, None when the chosen one is in use."""
    name = workload.random.choice(workload.names)
    life = workload.witness.life(program.account, name)
    if life is None:
        return name
    if not life.is_gone:
        return None
    # What was meant for the last one must not arrive at its successor.
    gone = workload.gone_at.setdefault(life.token, workload.now)
    return name if workload.now >= gone + 2 * PATIENCE_NS else None


def new_token(workload: Workload, name: str) -> bytes:
    """Return what tells a stream from all others."""
    return b"%b_%d" % (name.lower().encode(), workload.next_number())


def make_stream(workload: Workload, program: Program) -> None:
    """Create a stream, or ask again for one of which it is not known whether it is there."""
    name = free_name(workload, program)
    if name is None:
        life = workload.some_life(program, lambda life: not life.is_leaving, is_made=False)
        if life is not None and workload.now > life.asked_at + PATIENCE_NS and not life.archive:
            life.asked_at = workload.now
            _create(workload, program, life)
        return
    token = new_token(workload, name)
    origins = [
        life
        for life in workload.witness.lives
        if life.account == program.account
        and life.name != name
        and life.is_usable
        and life.retention == "limits"
        and not life.config.get("allow_msg_counter")
        and not _copies_from(workload, life, name)
    ]
    config = stream_options.stream_config(
        workload.random, name, token, origins, is_plain=workload.is_plain
    )
    life = Life(name, token, program.account, [config], workload.now)
    workload.witness.begin(life)
    _create(workload, program, life)


def _copies_from(workload: Workload, life: Life, name: str) -> bool:
    """Tell whether a stream copies from one of a name, or did, be it by way of others."""
    config = life.config
    origins = [
        source["name"] for source in (config.get("mirror"), *config.get("sources", [])) if source
    ]
    return name in origins or any(
        _copies_from(workload, other, name)
        for origin in origins
        for other in workload.witness.lives_named(life.account, origin)
    )


def _create(workload: Workload, program: Program, life: Life) -> None:
    def said(frame: Frame) -> None:
        if workload.counted("make", frame):
            life.is_made = True

    program.ask_api(f"STREAM.CREATE.{life.name}", life.config, "make", said=said)


def update_stream(workload: Workload, program: Program) -> None:
    """Change limits, what becomes of subjects, or what may be published."""
    life = workload.some_life(program, lambda life: life.retention == "limits")
    if life is None:
        return
    random, config = workload.random, dict(life.configs[-1])
    if life.is_mirror:
        config["max_msgs"] = random.choice([-1, 20, 50])
    elif config.get("allow_msg_schedules") or "sources" in config:
        config["max_msgs"] = random.choice([-1, 30])
    else:
        config |= stream_options.limits(random)
        if not workload.is_plain and "allow_msg_counter" not in config:
            config.pop("republish", None)
            config.pop("subject_transform", None)
            config |= stream_options.shape(random, life.token)
            config["allow_msg_ttl"] = config.get("allow_msg_ttl") or random.random() < 0.2
    if config.get("discard_new_per_subject") and config["max_msgs_per_subject"] <= 0:
        config["discard_new_per_subject"] = False
    life.configs.append(stream_options.with_window(config))
    program.ask_api(
        f"STREAM.UPDATE.{life.name}", config, "update",
        said=lambda frame: workload.counted("update", frame),
    )  # fmt: skip


def delete_stream(workload: Workload, program: Program) -> None:
    """Delete a stream."""
    life = workload.some_life(program, lambda life: not life.is_leaving)
    # A creation that arrives behind it would make the stream again.
    if life is None or workload.now <= life.asked_at + PATIENCE_NS:
        return
    life.is_leaving = True

    def said(frame: Frame) -> None:
        if workload.counted("delete", frame) or error_code(frame) == _NOT_FOUND:
            life.is_gone = True

    program.ask_api(f"STREAM.DELETE.{life.name}", None, "delete", said=said)


def error_code(frame: Frame) -> int:
    """Return the code of a refusal, 0 for none."""
    return int(answer_of(frame).get("error", {}).get("err_code", 0))


def purge(workload: Workload, program: Program) -> None:
    """Purge a stream, or a part of it."""
    life, random = workload.some_life(program), workload.random
    if life is None:
        return
    removal = Removal()
    body: dict[str, Any] = {}
    if random.random() < 0.6:
        removal.pattern = life.subject(random.choice(stream_options.TOKENS))
        body["filter"] = removal.pattern.decode()
    last = max(life.journal, default=0)
    if random.random() < 0.5:
        body["seq"] = removal.below = max(last - random.randrange(20), 1)
    elif random.random() < 0.3:
        body["keep"] = removal.keep = random.randrange(1, 4)
    _remove(workload, program, life, removal, f"STREAM.PURGE.{life.name}", body)


def delete_message(workload: Workload, program: Program) -> None:
    """Delete one message."""
    life, random = workload.some_life(program), workload.random
    if life is None or not life.seen:
        return
    removal = Removal(sequence=random.choice(list(life.seen)))
    body = {"seq": removal.sequence, "no_erase": random.random() < 0.7}
    _remove(workload, program, life, removal, f"STREAM.MSG.DELETE.{life.name}", body)


def _remove(
    workload: Workload, program: Program, life: Life, removal: Removal, verb: str, body: object
) -> None:
    life.removals.append(removal)
    seen = [removal.sequence] if removal.sequence else list(life.seen)

    def said(frame: Frame) -> None:
        if workload.counted("purge", frame) and not removal.keep:
            life.gone.update(
                sequence
                for sequence in seen
                if sequence in life.journal
                and removal.covers(sequence, life.journal[sequence].subject)
            )

    program.ask_api(verb, body, "purge", said=said)


def get(workload: Workload, program: Program) -> None:
    """Get a message directly."""
    life, random = workload.some_life(program), workload.random
    if life is None:
        return
    body: dict[str, Any] = {"seq": random.randrange(1, max(life.journal, default=0) + 2)}
    if random.random() < 0.5:
        token = random.choice(stream_options.TOKENS)
        body = {"last_by_subj": life.subject(token).decode()}

    def said(frame: Frame) -> None:
        if not frame.status and frame.headers:
            workload.witness.got(program.account, frame)

    request = program.ask("get", said=said)
    path = b"$JS.API.DIRECT.GET." + life.name.encode()
    program.send(pub(path, request.reply, b"", orjson.dumps(body)))


def look(workload: Workload, program: Program) -> None:
    """Ask about a stream and its consumers."""
    life = workload.some_life(program)
    if life is None:
        return
    program.ask_api(
        f"STREAM.INFO.{life.name}", None, "info",
        said=lambda frame: workload.counted("info", frame),
    )  # fmt: skip
    for name in life.readers:
        program.ask_api(
            f"CONSUMER.INFO.{life.name}.{name}", None, "reader info",
            said=lambda frame: workload.counted("reader info", frame),
        )  # fmt: skip
