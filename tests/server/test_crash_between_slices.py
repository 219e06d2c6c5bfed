"""What takes several turns, cut off after each of them: by a kill, and by a power cut."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.api import long_requests
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.consumers import consumer_creation, consumer_files
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Output, Publish
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams import interest
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.vault import FileVault

ROOT = Path("/store")
COUNT = 60


class Server:
    """An account on a disk that loses what is not durable."""

    def __init__(self, disk: Any) -> None:
        self.disk = disk
        self.now = 1_700_000_000 * SECOND
        self.start()

    def start(self) -> None:
        self.commit = GroupCommit(self.disk)
        sublist = Sublist()
        self.output = Output(sublist)
        self.logged: list[str] = []
        context = Context(
            "$G",
            "S",
            "",
            sublist,
            self.output,
            Nuid(Random(1)),
            log=lambda level, text: self.logged.append(text),
        )
        vault = FileVault(ROOT, "$G", self.commit, self.disk, block_bytes=400)
        self.catalog = Catalog(context, vault)
        self.catalog.recover(self.now)
        Api(self.catalog).subscribe()
        self.answers: list[dict[str, Any]] = []

    def crash(self, *, power: bool) -> None:
        """End without warning, and start again."""
        if power:
            self.disk.restart()
        else:
            self.disk._locks.clear()
        self.start()

    def turn(self) -> None:
        """Have a turn and a flush; a millisecond passes."""
        self.now += MILLISECOND
        self.catalog.run(self.now)
        flush = self.commit.take(self.now)
        if flush is not None:
            assert not flush.run()
            self.commit.complete(flush)
        for send in self.output.sends_after_flush:
            if isinstance(send, Publish) and send.run.subject(0) == b"answer":
                self.answers.append(json.loads(send.run.payload(0)))
        self.output.sends_after_flush.clear()

    def publish(self, subject: bytes, payload: bytes = b"", reply: bytes = b"") -> None:
        run = PubRun.single(subject, reply, b"", payload)
        for subscription in self.output.sublist.match(subject).plain:
            subscription.receiver.receive(Stretch(run, 0, 1, subscription, None, self.now))

    def send(self, verb: str, body: Any = None) -> None:
        """Ask; the answer comes with some turn."""
        text = b"" if body is None else json.dumps(body).encode()
        self.publish(f"$JS.API.{verb}".encode(), text, b"answer")

    def ask(self, verb: str, body: Any = None) -> dict[str, Any]:
        """Ask, and have turns until it is answered."""
        self.send(verb, body)
        for _ in range(1000):
            self.turn()
            if self.answers:
                return self.answers.pop()
        raise AssertionError("no answer")

    @property
    def stream(self) -> Stream:
        return self.catalog.streams["S"]

    def kept(self) -> list[int]:
        store = self.stream.store
        return [s for s in range(1, store.last_seq + 1) if store.load(s) is not None]


@pytest.fixture
def server(sim_disk_module: Any) -> Server:
    server = Server(sim_disk_module.SimDisk(Random(1)))
    assert "error" not in server.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    for number in range(COUNT):
        server.publish(b"s.%d" % (number % 3), b"%d" % number)
    server.turn()
    return server


@pytest.mark.parametrize("power", [False, True])
def test_a_purge_leaves_what_it_has_not_reached(server: Server, power: bool) -> None:
    matching = list(range(1, COUNT + 1, 3))
    others = [sequence for sequence in range(1, COUNT + 1) if sequence not in matching]
    removed_before, rounds = 0, 0
    while removed_before < len(matching):
        rounds += 1
        assert rounds < 100
        server.send("STREAM.PURGE.S", {"filter": "s.0"})
        for _ in range(1 + rounds % 3):
            server.turn()
        answered = bool(server.answers)
        server.crash(power=power)
        kept = server.kept()
        assert server.stream.store.last_seq == COUNT
        assert [each for each in kept if each not in matching] == others
        left = [each for each in kept if each in matching]
        assert left == matching[len(matching) - len(left) :], "from the front"
        assert len(left) <= len(matching) - removed_before, "what is gone stays gone"
        removed_before = len(matching) - len(left)
        if answered:
            assert not left
    assert rounds > 2
    assert server.ask("STREAM.PURGE.S", {"filter": "s.0"})["purged"] == 0


@pytest.mark.parametrize("power", [False, True])
def test_a_consumer_is_there_as_a_whole_or_not_at_all(
    server: Server, monkeypatch: pytest.MonkeyPatch, power: bool
) -> None:
    monkeypatch.setattr(consumer_creation, "SUBJECTS_AT_ONCE", 1)
    monkeypatch.setattr(consumer_creation, "MESSAGES_AT_ONCE", 10)
    server.turn()
    seen = set()
    for turns in range(12):
        config = {
            "durable_name": "C",
            "filter_subject": "s.*",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": COUNT // 2,
        }
        server.send("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
        for _ in range(turns):
            server.turn()
        answered = bool(server.answers)
        server.crash(power=power)
        found = server.stream.consumers.get("C")
        seen.add((answered, found is not None))
        assert found is not None or not answered
        if found is not None:
            assert isinstance(found, Consumer)
            assert found.progress.cursor.num_pending() == COUNT - COUNT // 2 + 1
            assert server.ask("CONSUMER.DELETE.S.C") == {
                "type": "io.nats.jetstream.api.v1.consumer_delete_response",
                "success": True,
            }
    assert (False, False) in seen
    assert (True, True) in seen


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("beside_max", [0, 1 << 20])
def test_a_long_first_state_is_there_whatever_its_file(
    server: Server, monkeypatch: pytest.MonkeyPatch, beside_max: int, power: bool
) -> None:
    monkeypatch.setattr(consumer_files, "_STATE_BESIDE_MAX", beside_max)
    config = {
        "durable_name": "C",
        "filter_subject": "s.*",
        "deliver_policy": "last_per_subject",
    }
    assert "error" not in server.ask("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    for _ in range(2):
        found = server.stream.consumers["C"]
        assert isinstance(found, Consumer)
        assert list(found.progress.cursor.snapshot) == [COUNT - 2, COUNT - 1, COUNT]
        assert found.files.has_state_file == (beside_max == 0)
        for number in range(3):  # newer ones, which are not in the snapshot
            server.publish(b"s.%d" % number)
        server.crash(power=power)
    assert not server.logged


@pytest.mark.parametrize("power", [False, True])
def test_a_stream_of_many_subjects_listens_to_all_of_them_or_is_not_there(
    server: Server, monkeypatch: pytest.MonkeyPatch, power: bool
) -> None:
    monkeypatch.setattr(interest, "AT_ONCE", 2)
    monkeypatch.setattr(long_requests, "BODY_AT_ONCE_MAX", 0)
    subjects = [f"m.{number}" for number in range(9)]
    seen = set()
    for turns in range(14):
        server.send("STREAM.CREATE.M", {"name": "M", "subjects": subjects})
        for _ in range(turns):
            server.turn()
        answered = bool(server.answers)
        server.crash(power=power)
        made = server.catalog.streams.get("M")
        seen.add((answered, made is not None))
        assert made is not None or not answered
        if made is not None:
            for subject in subjects:
                server.publish(subject.encode())
            assert made.store.last_seq == len(subjects)
            assert "error" not in server.ask("STREAM.DELETE.M")
    assert seen == {(False, False), (False, True), (True, True)}
