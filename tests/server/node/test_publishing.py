"""What one client publishes: in whole runs, or looked at message by message."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast
from weakref import ref

import pytest
from jetstream_server.config.options import MappingDestination, ServerOptions, SubjectMapping
from jetstream_server.core.answers import Answers
from jetstream_server.core.deliveries import Deliveries
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.node import publishing
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.subject_mappings import SubjectMappings
from jetstream_server.node.auth.auth import User
from jetstream_server.node.auth.connect_options import Wishes
from jetstream_server.node.auth.permissions import PermissionRules, SubjectRules
from jetstream_server.node.publishing import Publishing
from jetstream_server.node.rights import Rights
from jetstream_server.node.stats import Traffic
from jetstream_server.protocol.errors import Fault
from jetstream_server.protocol.ops import PubRun

PLAIN = Wishes(verbose=False, pedantic=False)


class Publisher:
    """A client that notes what it is told."""

    echo = True
    is_server = False
    answers = None

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.accepted = 0

    def refuse(self, fault: Fault) -> None:
        self.faults.append(fault.text)

    def accept(self) -> None:
        self.accepted += 1

    def unanswered(self, run: PubRun, start: int, stop: int) -> int:
        return 0


class Listener:
    """Notes the stretches that it gets."""

    def __init__(self, account: Account) -> None:
        self.got: list[list[bytes]] = []
        account.sublist.insert(Subscription(b">", self))

    def receive(self, stretch: Stretch) -> None:
        self.got.append([stretch.run.subject(at) for at in stretch.indices])


class Bench:
    """A client that publishes in an account where somebody listens to everything."""

    def __init__(self) -> None:
        self.client = Publisher()
        self.account = Account("A", Random(1))
        self.heard = Listener(self.account)
        self.traffic = Traffic()
        self.rights = Rights(None, self.account.limits, ServerOptions())
        self.publishing = Publishing(
            cast(Any, ref(self.client)),
            cast(Any, SimpleNamespace(options=ServerOptions(), random=Random(1))),
            Answers(SimpleNamespace(backlog_bytes=0), lambda: None),
            self.traffic,
            self.account,
            self.rights,
        )

    def adopt(self, wishes: Wishes = PLAIN, user: User | None = None) -> None:
        rights = Rights(user, self.account.limits, ServerOptions())
        self.publishing.adopt(self.account, rights, wishes, is_connected=True)

    def publish(self, *subjects: bytes) -> PubRun | None:
        return self.publishing.publish(PubRun.of([(s, b"", b"", b"xy") for s in subjects]), 0)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_run_in_which_nothing_is_looked_at_stays_whole(bench: Bench) -> None:
    bench.adopt()
    assert bench.publish(b"a", b"b", b"c") is None
    assert bench.heard.got == [[b"a", b"b", b"c"]] and not bench.client.accepted
    assert (bench.traffic.in_msgs, bench.traffic.in_bytes) == (3, 6)


def test_what_is_reserved_is_cut_out_of_it(bench: Bench) -> None:
    bench.adopt()
    bench.publish(b"a", b"$NRG.x", b"c")
    assert bench.heard.got == [[b"a"], [b"c"]] and len(bench.client.faults) == 1


def test_what_is_denied_is_cut_out_and_the_rest_stays_together(bench: Bench) -> None:
    bench.adopt(user=User(permissions=PermissionRules(SubjectRules(None, ["no"]), SubjectRules())))
    bench.publish(b"a", b"b", b"no", b"c", b"d")
    assert bench.heard.got == [[b"a", b"b"], [b"c", b"d"]]
    assert len(bench.client.faults) == 1 and "no" in bench.client.faults[0]


def test_who_wants_to_hear_of_each_is_told(bench: Bench) -> None:
    bench.adopt(Wishes())
    bench.publish(b"a", b"b..c")
    assert bench.client.accepted == 2 and len(bench.client.faults) == 1


def test_of_what_is_looked_at_there_is_so_much_in_a_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "MESSAGES_OF_TURN_MAX", 2)
    left = bench.publish(b"a", b"b", b"c")  # before CONNECT
    assert left is not None and [left.subject(at) for at in range(left.count)] == [b"c"]
    assert (bench.traffic.in_msgs, bench.traffic.in_bytes) == (2, 4)
    assert bench.publishing.publish(left, 0) is None and bench.traffic.in_msgs == 3


def test_of_what_is_held_against_very_many_rules_there_is_less_in_a_turn(bench: Bench) -> None:
    denied = [f"d.{'*.' * (n % 12)}{n}.x" for n in range(1000)]
    bench.adopt(user=User(permissions=PermissionRules(SubjectRules(None, denied), SubjectRules())))
    subjects = [b"d.%b%d.y" % (b"z." * 12, n) for n in range(900)]
    left: PubRun | None = PubRun.of([(subject, b"", b"", b"") for subject in subjects])
    shares = []
    while left is not None:
        bench.publishing.looked_at = 0
        left = bench.publishing.publish(left, 0)
        shares.append(bench.publishing.looked_at)
    assert [each for subjects in bench.heard.got for each in subjects] == subjects
    assert len(shares) > 1
    assert max(shares) < 1.2 * publishing.MESSAGES_OF_TURN_MAX


def test_of_what_is_mapped_there_is_less_in_a_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "MESSAGES_OF_TURN_MAX", 8)
    mapping = SubjectMapping("a.*", (MappingDestination("b.{{wildcard(1)}}"),))
    bench.account.mappings = SubjectMappings([mapping], Random(1))
    bench.adopt()
    left = bench.publish(*[b"a.%d" % number for number in range(5)])
    assert left is not None and left.count == 3
    assert [subject for subjects in bench.heard.got for subject in subjects] == [b"b.0", b"b.1"]
    assert bench.publishing.looked_at == 8


@pytest.mark.parametrize("wishes", [PLAIN, Wishes(pedantic=True, verbose=True)])
def test_what_there_is_no_time_for_is_looked_at_once(bench: Bench, wishes: Wishes) -> None:
    bench.adopt(
        wishes, User(permissions=PermissionRules(SubjectRules(None, ["no.*"]), SubjectRules()))
    )
    deliveries = Deliveries()
    bench.account.router._deliveries = deliveries
    subjects = [b"no.1" if n % 7 == 3 else b"%d.x" % n for n in range(50)]
    left: PubRun | None = PubRun.of([(subject, b"", b"", b"xy") for subject in subjects])
    turns = 0
    while left is not None:
        deliveries.left, deliveries.subjects_left = 0, 2
        left = bench.publishing.publish(left, 0)
        turns += 1
        assert turns < 100
    heard = [subject for stretch in bench.heard.got for subject in stretch]
    assert heard == [subject for subject in subjects if subject != b"no.1"]
    assert len(bench.client.faults) == subjects.count(b"no.1")
    assert turns > 10
    assert bench.client.accepted == len(heard)


def test_what_was_admitted_before_rights_came_and_went_is_not_taken_for_what_comes_later(
    bench: Bench,
) -> None:
    """A reload takes the rules away while messages wait for time, and another brings new ones."""
    user = User(permissions=PermissionRules(SubjectRules(None, ["other"]), SubjectRules()))
    bench.adopt(user=user)
    deliveries = Deliveries()
    bench.account.router._deliveries = deliveries
    deliveries.subjects_left = 2
    left = bench.publish(*[b"%d.x" % n for n in range(20)])
    assert left is not None
    bench.adopt()
    deliveries.begin()
    assert bench.publishing.publish(left, 0) is None
    bench.adopt(
        user=User(permissions=PermissionRules(SubjectRules(None, ["no.*"]), SubjectRules()))
    )
    bench.heard.got.clear()
    bench.publish(*[b"no.%d" % n for n in range(20)])
    assert bench.heard.got == [] and len(bench.client.faults) == 20


def denying(*subjects: str) -> User:
    return User(permissions=PermissionRules(SubjectRules(None, [*subjects]), SubjectRules()))


@pytest.mark.parametrize("wishes", [PLAIN, Wishes(pedantic=True, verbose=True)])
@pytest.mark.parametrize(
    "denied",
    [("", "b", "b"), ("a", "ab", "b"), ("a", "b", "abc"), ("ab", "c", "c"), ("ab", "c", "")],
)
def test_what_waits_is_published_under_the_rights_that_hold_by_then(
    bench: Bench, wishes: Wishes, denied: tuple[str, ...]
) -> None:
    """Reloads deny what was admitted and waits for its turn. Who publishes hears of each message
    once, and besides of each that is denied after all; what was refused stays so."""
    deliveries = Deliveries()
    bench.account.router._deliveries = deliveries
    subjects = [b"%d.%b" % (n, b"abc"[n % 3 : n % 3 + 1]) for n in range(60)]
    left: PubRun | None = PubRun.of([(subject, b"", b"", b"xy") for subject in subjects])
    heard: list[bytes] = []
    turns = 0
    while left is not None:
        if turns in (0, 5, 8):
            now_denied = denied[(0, 5, 8).index(turns)]
            bench.adopt(wishes, denying("x", *(f"*.{each}" for each in now_denied)))
        deliveries.begin()
        deliveries.subjects_left = 2
        bench.heard.got.clear()
        left = bench.publishing.publish(left, 0)
        came = [each for stretch in bench.heard.got for each in stretch]
        assert not [each for each in came if each[-1:].decode() in now_denied]
        heard += came
        turns += 1
        assert turns < 100
    assert turns > 8
    assert heard == [each for each in subjects if each in heard]
    faults = [fault.split('"')[1].encode() for fault in bench.client.faults]
    assert sorted([*heard, *faults]) == sorted(subjects)
    if wishes.verbose:
        assert len(heard) <= bench.client.accepted <= len(subjects)


class Late:
    """Puts off what it gets, until it is to take it."""

    def __init__(self, bench: Bench, subject: bytes) -> None:
        self.takes = False
        self._heard = bench.heard.got
        bench.account.sublist.insert(Subscription(subject, self))

    def receive(self, stretch: Stretch) -> None:
        if not self.takes:
            answers = stretch.answers
            assert answers is not None
            answers.postpone(stretch.postponed_from(stretch.start))
            return
        self._heard.append([b"late " + stretch.run.subject(at) for at in stretch.indices])


TRACED = b"NATS/1.0\r\nNats-Trace-Dest: tr\r\n\r\n"
NOT_TRACED = b"NATS/1.0\r\nNats-Trace-Dest: trace disabled\r\n\r\n"


@pytest.mark.parametrize("wishes", [PLAIN, Wishes()])
@pytest.mark.parametrize(
    "said",
    [
        [(b"a", b"", b"", b""), (b"b", b"", b"", b"")],
        [(b"a", b"", b"", b""), (b"b", b"", NOT_TRACED, b"")],
        [(b"a", b"", b"", b""), (b"$NRG.x", b"", b"", b""), (b"b", b"", b"", b"")],
        [(b"a", b"", b"", b""), (b"c", b"_R_.x.y", b"", b""), (b"b", b"", b"", b"")],
        [(b"a", b"", b"", b""), (b"$NRG.x", b"", b"", b""), (b"b", b"", NOT_TRACED, b"")],
    ],
)
def test_what_follows_something_that_waits_does_not_overtake_it(
    bench: Bench, wishes: Wishes, said: list[tuple[bytes, bytes, bytes, bytes]]
) -> None:
    late = Late(bench, b"a")
    bench.adopt(wishes)
    answers = bench.publishing._answers
    bench.client.answers = answers  # type: ignore[assignment]
    bench.heard.got.clear()
    left = bench.publishing.publish(PubRun.of(said), 0)
    assert [b"a"] in bench.heard.got and [b"b"] not in bench.heard.got
    assert left is not None and answers.postponed
    late.takes = True
    answers.resume(0)
    assert bench.publishing.publish(left, 0) is None
    assert bench.heard.got[-2:] == [[b"late a"], [b"b"]]
