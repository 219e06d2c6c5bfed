"""What a stream holds: the same calls lead to the same contents, and nobody else is asked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.streams.alarm import Alarm
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.messages.scan import stored
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.ports import MessageStore
from jetstream_server.store.vault import FileVault, MemoryFolder

SUBJECTS = [b"s.a", b"s.b", b"s.c"]
FIELDS = {
    "allow_msg_ttl": True,
    "allow_rollup_hdrs": True,
    "max_msgs_per_subject": 4,
    "max_age": 60 * SECOND,
    "duplicate_window": 5 * SECOND,
    "subject_delete_marker_ttl": 10 * SECOND,
}


class Owner:
    def tick(self, now: int) -> None:
        raise AssertionError("nothing here runs by itself")


def contents_of(bench: Any, store: MessageStore, **fields: Any) -> Contents:
    context = bench.context
    return Contents(context, bench.config(**fields), store, Alarm(context.deadlines, Owner()))


def message(subject: bytes, *lines: str, ttl: int = 0) -> Candidate:
    block = b"".join(line.encode() + b"\r\n" for line in lines)
    headers = b"NATS/1.0\r\n" + block + b"\r\n" if lines else b""
    candidate = Candidate(subject, b"", headers, b"x")
    candidate.ttl = ttl
    return candidate


def apply_some(contents: Contents, consumer: Any, seed: int) -> None:
    """Apply many inputs of all kinds; which ones, and when, depends on the seed alone."""
    random, now = Random(seed), 1_700_000_000 * SECOND
    contents.consumers[consumer.name] = consumer
    for number in range(120):
        now += random.randrange(3 * SECOND)
        subject, kind = random.choice(SUBJECTS), random.randrange(7)
        if kind == 0:
            run = PubRun.of((random.choice(SUBJECTS), b"", b"", b"%d" % n) for n in range(5))
            first = contents.append_run(run, 1, 5, now)
            contents.after_storing(first, first + 3, now)
        elif kind == 1:
            single = message(subject, f"Nats-Msg-Id: {number}", ttl=random.choice([0, 20]))
            contents.append(single, 0, now, is_wanted=random.random() < 0.8)
        elif kind == 2:
            batch = [message(random.choice(SUBJECTS), f"Nats-Msg-Id: b{number}.{n}") for n in "ab"]
            contents.append_batch(batch, now)
        elif kind == 3:
            contents.append(message(subject, "Nats-Rollup: sub"), 0, now, is_wanted=True)
        elif kind == 4:
            contents.removal.remove(contents.store.last_seq - random.randrange(5), False, now)
        elif kind == 5:
            contents.skip_to(contents.store.last_seq + random.randrange(3), now)
        else:
            contents.forget_ids(now)
            contents.expire(now)


def picture(contents: Contents) -> dict[str, Any]:
    """Return all that can be seen of the contents."""
    store = contents.store
    expiry = contents.removal.expiry
    return {
        "messages": list(stored(store, store.first_seq)),
        "state": store.state(),
        "ids": [contents.dedupe.find(b"%d" % n) for n in range(120)],
        "known": (len(contents.dedupe), contents.dedupe.next_deadline()),
        "last id": contents.last_message_id,
        "ends": expiry.next_deadline(),
    }


@pytest.mark.parametrize("seed", range(8))
def test_the_same_inputs_lead_to_the_same_contents(
    bench: Any, make_consumer: Any, tmp_path: Path, seed: int
) -> None:
    commit = GroupCommit(OsDisk())
    file = FileVault(tmp_path, "$G", commit, OsDisk()).folder("S", memory=False)
    seen = []
    for storage, folder in (("memory", MemoryFolder(0)), ("file", file)):
        consumer = make_consumer("C")
        contents = contents_of(bench, folder.messages(), storage=storage, **FIELDS)
        apply_some(contents, consumer, seed)
        seen.append((picture(contents), consumer.told))
        commit.drain()
    (memory, told), (kept, told_of_file) = seen
    # What a store counts as bytes depends on its kind.
    memory["state"] = dataclasses.replace(memory["state"], bytes=kept["state"].bytes)
    assert memory == kept and told == told_of_file
    assert kept["state"].last_seq > 60 and told


def test_what_is_found_again_is_what_was_there(bench: Any, make_consumer: Any) -> None:
    folder = MemoryFolder(0)
    contents = contents_of(bench, folder.messages(), **FIELDS)
    apply_some(contents, make_consumer("C"), 3)
    now = contents.store.state().last_ts
    mortal = message(b"s.a", "Nats-Msg-Id: newest", "Nats-TTL: 20", ttl=20)
    contents.append(mortal, 0, now, is_wanted=True)
    again = contents_of(bench, folder.messages(), **FIELDS)
    again.recover(now)
    assert again.last_message_id == b"newest"
    newest = again.dedupe.find(b"newest")
    assert newest == again.store.last_seq
    again.expire(now + 20 * SECOND - 1)
    assert again.store.load(newest) is not None
    again.expire(now + 20 * SECOND)
    assert again.store.load(newest) is None


def test_a_store_that_fails_is_logged_once_until_it_takes_something(bench: Any) -> None:
    contents = contents_of(bench, MemoryFolder(0).messages())
    for _ in range(3):
        assert contents.not_stored(StoreError("full")).err_code == 10077
    assert contents.has_failed and len(bench.logged) == 1
    contents.append(message(b"s.a"), 0, bench.now, is_wanted=True)
    assert not contents.has_failed
    contents.not_stored(StoreError("full"))
    assert len(bench.logged) == 2
