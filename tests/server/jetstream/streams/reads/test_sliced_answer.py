"""A direct get in slices: what happens between them, and to those who ask meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.core.answers import Answers
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.reads import direct_search
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks.content_cache import ContentCache
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.vault import FileFolder

ADDRESS = b"$JS.API.DIRECT.GET.S"
COUNT = 60


class Sender:
    """The client that asks, as far as direct gets know it."""

    echo = True

    def __init__(self, outlet: Any) -> None:
        self.outlet = outlet
        self.calls = 0
        self.unheard: list[int] = []
        self.answers = Answers(outlet, self._go_on)

    def _go_on(self) -> None:
        self.calls += 1

    def unanswered(self, run: PubRun, start: int, stop: int) -> int:
        self.unheard += range(start, stop)
        return 0


class Asker:
    """A stream of 60 messages of four subjects in small blocks, and a client that asks."""

    def __init__(self, bench: Any, disk: Any) -> None:
        self.bench = bench
        commit = GroupCommit(disk)
        folder = FileFolder(
            Path("/s"), commit, ContentCache(disk), first_seq=0, is_fresh=True, block_bytes=200
        )
        config = bench.config(storage="file", allow_direct=True)
        self.stream = Stream(bench.context, config, bench.now, folder, folder.messages(), bench.now)
        self.stream.subscribe()
        for number in range(COUNT):
            bench.publish(self.stream, b"s.%d" % (number % 4), b"%d" % number)
        self.sender = Sender(bench.client)

    def rare(self) -> dict[str, Any]:
        """Store a subject twice, with much in between; return what asks for the second one."""
        for subject in (b"s.rare", *[b"s.0"] * 50, b"s.rare"):
            self.bench.publish(self.stream, subject)
        return {"seq": COUNT + 2, "next_by_subj": "s.rare"}

    def ask(self, *bodies: dict[str, Any], reply: bytes = b"_INBOX.d") -> None:
        """Send requests in one run."""
        ((target,),) = self.bench.sublist.match(ADDRESS).queues
        run = PubRun.of(
            [
                (ADDRESS, reply + b".%d" % number, b"", json.dumps(body).encode())
                for number, body in enumerate(bodies)
            ]
        )
        stretch = Stretch(run, 0, len(bodies), target, self.sender, self.bench.now)
        target.receiver.receive(stretch)

    def heard(self) -> list[tuple[bytes, bytes, bytes]]:
        """Take what was answered; what was owed for it is paid."""
        for send in self.bench.output.sends_after_flush:
            if hasattr(send, "answers"):
                send.answers.release(send.size)
        sends = self.bench.output.sends_after_flush
        sends[:] = [send for send in sends if not hasattr(send, "answers")]
        return list(self.bench.sent())

    def turns(self) -> list[list[tuple[bytes, bytes, bytes]]]:
        """Return what is answered in each turn until all is."""
        turns = [self.heard()]
        while self.sender.answers.postponed:
            assert self.sender.calls, "nobody would go on with it"
            self.sender.calls = 0
            self.sender.answers.resume(self.bench.now)
            turns.append(self.heard())
        return turns

    def next_turn(self) -> list[tuple[bytes, bytes, bytes]]:
        self.sender.answers.resume(self.bench.now)
        return self.heard()


@pytest.fixture
def asker(bench: Any, sim_disk_module: Any) -> Asker:
    return Asker(bench, sim_disk_module.SimDisk(Random(1)))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make slices of a few messages."""
    for name, value in (
        ("_SLICE_BYTES", 100),
        ("_SLICE_MESSAGES", 3),
        ("_SLICE_LOADED", 2),
        ("_SLICE_WINDOWS", 2),
        ("_SLICE_SUBJECTS", 1),
        ("_SLICE_COUNTED", 5),
    ):
        monkeypatch.setattr(direct_search, name, value)


BATCH = {"seq": 1, "batch": 1000}
FORMS: list[dict[str, Any]] = [
    BATCH,
    {"seq": 7, "batch": 20},
    {"seq": 7, "batch": 20, "no_hdr": True},
    {"seq": 1, "batch": 30, "next_by_subj": "s.*"},
    {"seq": 1, "batch": 30, "next_by_subj": "s.1"},
    {"seq": 1, "batch": 1000, "max_bytes": 30},
    {"seq": 1, "batch": 4, "next_by_subj": "s.none"},
    {"seq": 2, "next_by_subj": "s.rare"},
    {"multi_last": ["s.>"]},
    {"multi_last": ["s.>"], "up_to_seq": 20, "batch": 3},
    {"multi_last": ["s.>"], "up_to_seq": 20, "max_bytes": 9},
    {"start_time": "2020-01-01T00:00:00Z", "batch": 9},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("is_direct", [True, False])
def test_slices_together_are_the_answer(
    asker: Asker,
    monkeypatch: pytest.MonkeyPatch,
    request: Any,
    form: dict[str, Any],
    is_direct: bool,
) -> None:
    monkeypatch.setattr(direct_search, "_SLICE_WINDOWS", 1000)
    if not is_direct:  # answers are routed one by one
        asker.bench.inbox.max_messages = 1_000_000
    asker.bench.publish(asker.stream, b"s.rare")
    asker.ask(form)
    (whole,) = asker.turns()
    request.getfixturevalue("small")
    asker.ask(form)
    slices = asker.turns()
    assert [each for turn in slices for each in turn] == whole


def test_a_long_answer_takes_several_turns(asker: Asker, small: None) -> None:
    for form in (BATCH, {"multi_last": ["s.>"], "up_to_seq": 30}):
        asker.ask(form)
        turns = asker.turns()
        assert len(turns) > 1
        assert max(map(len, turns)) < 12
    asker.ask(asker.rare())
    assert len(asker.turns()) > 1


def test_whoever_cannot_be_made_to_wait_gets_all_at_once(asker: Asker, small: None) -> None:
    ((target,),) = asker.bench.sublist.match(ADDRESS).queues
    run = PubRun.of([(ADDRESS, b"_INBOX.d", b"", json.dumps(BATCH).encode())])
    target.receiver.receive(Stretch.of_server(run, target, asker.bench.now))
    assert len(asker.heard()) == COUNT + 1


def test_requests_behind_it_are_answered_behind_it(asker: Asker, small: None) -> None:
    asker.ask({"seq": 3}, BATCH, {"seq": 4}, BATCH, {"seq": 5})
    asker.ask({"seq": 6}, reply=b"_INBOX.e")
    replies = [reply for turn in asker.turns() for reply, _, _ in turn]
    order = list(dict.fromkeys(replies))
    assert order == [*(b"_INBOX.d.%d" % number for number in range(5)), b"_INBOX.e.0"]
    assert len(replies) == 2 * (COUNT + 1) + 4


def test_it_waits_for_a_client_that_does_not_read(asker: Asker, small: None) -> None:
    asker.ask(BATCH)
    first = asker.heard()
    asker.bench.client.backlog_bytes = 1 << 30
    assert asker.next_turn() == []
    asker.bench.client.backlog_bytes = 0
    rest = [each for turn in asker.turns() for each in turn]
    assert len(first) + len(rest) == COUNT + 1


def sequences(heard: list[tuple[bytes, bytes, bytes]]) -> list[int]:
    return [int(payload) + 1 for _, _, payload in heard if payload]


def test_what_is_published_meanwhile_is_not_part_of_it(asker: Asker, small: None) -> None:
    asker.ask(BATCH)
    heard = asker.heard()
    for _ in range(5):
        asker.bench.publish_all(asker.stream, [(b"s.0", b"999", ())])
    heard += [each for turn in asker.turns() for each in turn]
    assert sequences(heard) == list(range(1, COUNT + 1))
    assert heard[-1][1].startswith(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\n")


@pytest.mark.parametrize("is_direct", [True, False])
def test_what_comes_in_the_place_of_what_was_purged_is_not_part_of_it(
    asker: Asker, small: None, is_direct: bool
) -> None:
    if not is_direct:
        asker.bench.inbox.max_messages = 1_000_000
    asker.ask(BATCH)
    heard = asker.heard()
    done = sequences(heard)
    asker.stream.purge(b"", 0, 0, asker.bench.now)
    asker.bench.publish_all(asker.stream, [(b"s.0", b"999", ())])
    heard += [each for turn in asker.turns() for each in turn]
    assert sequences(heard) == done


@pytest.mark.parametrize("form", [BATCH, {"multi_last": ["s.>"]}], ids=str)
def test_what_is_purged_meanwhile_is_left_out(
    asker: Asker, small: None, form: dict[str, Any]
) -> None:
    asker.ask(form)
    heard = asker.heard()
    done = sequences(heard)
    asker.stream.purge(b"", COUNT, 0, asker.bench.now)
    heard += [each for turn in asker.turns() for each in turn]
    assert sequences(heard) == [*done, COUNT]
    assert heard[-1][1].startswith(b"NATS/1.0 204 EOB\r\n")


def test_the_subject_that_is_looked_for_may_go_meanwhile(asker: Asker, small: None) -> None:
    asker.ask(asker.rare())
    assert asker.heard() == []
    asker.stream.purge(b"s.rare", 0, 0, asker.bench.now)
    (answer,) = [each for turn in asker.turns() for each in turn]
    assert answer[1] == b"NATS/1.0 404 Message Not Found\r\n\r\n"


def gone(asker: Asker) -> None:
    asker.stream.delete(asker.bench.now)


def offline(asker: Asker) -> None:
    asker.stream.abandon("given up")


@pytest.mark.parametrize("end", [gone, offline])
def test_when_the_stream_goes_whoever_asked_is_told(
    asker: Asker, small: None, end: Callable[[Asker], None]
) -> None:
    asker.ask(BATCH, BATCH)
    assert 0 < len(asker.heard()) < COUNT
    end(asker)
    heard = [each for turn in asker.turns() for each in turn]
    assert [headers[:13] for _, headers, _ in heard][:1] == [b"NATS/1.0 500 "]
    # The one behind it finds nobody, or is told as well.
    assert asker.sender.unheard == [1] or len(heard) == 2


def test_an_update_ends_what_has_not_begun(asker: Asker, small: None) -> None:
    asker.ask(BATCH, BATCH)
    asker.heard()
    config = asker.bench.config(storage="file", allow_direct=False)
    asker.stream.reconfigure(config, asker.bench.now)
    replies = {reply for turn in asker.turns() for reply, _, _ in turn}
    assert replies == {b"_INBOX.d.0"}
    assert asker.sender.unheard == [1]


def test_nobody_goes_on_for_a_client_that_has_gone(asker: Asker, small: None) -> None:
    asker.ask(BATCH, {"seq": 1})
    asker.heard()
    asker.bench.sublist.remove(asker.bench.inbox)  # it no longer listens
    assert [reply for reply, _, _ in asker.next_turn()] == [b"_INBOX.d.1"]
    asker.ask(BATCH, reply=b"_INBOX.e")
    asker.sender.answers.forget()  # the connection is closed
    assert not asker.sender.answers.postponed
