"""Routing: runs stay whole as long as the same subscribers get them."""

from __future__ import annotations

from itertools import groupby, pairwise
from random import Random
from types import SimpleNamespace

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.core import match as match_module
from jetstream_server.core import sublist as sublist_module
from jetstream_server.core.answers import Answers
from jetstream_server.core.deliveries import (
    CLIENTS_OF_TURN_MAX,
    DELIVERIES_OF_TURN_MAX,
    NODES_OF_SUBJECT,
    Deliveries,
)
from jetstream_server.core.match import Match
from jetstream_server.core.shared_mark import SharedMark
from jetstream_server.core.subject import matches
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.node import router as router_module
from jetstream_server.node.router import Router
from jetstream_server.protocol.ops import PubRun


class Recorder:
    """A receiver that notes the stretches it gets."""

    def __init__(self) -> None:
        self.stretches: list[tuple[int, int]] = []

    def receive(self, stretch: Stretch) -> None:
        self.stretches.append((stretch.start, stretch.stop))

    @property
    def messages(self) -> list[int]:
        return [index for start, stop in self.stretches for index in range(start, stop)]


class Publisher(Recorder):
    """A receiver that also publishes."""

    echo = True
    is_server = False
    answers = None

    def __init__(self) -> None:
        super().__init__()
        self.unheard: list[int] = []

    def client_info(self, now):
        return {}

    def unanswered(self, run, start, stop):
        self.unheard += range(start, stop)
        return 0


def run_of(*subjects: bytes) -> PubRun:
    return PubRun.of((subject, b"", b"", b"x") for subject in subjects)


@pytest.fixture
def sublist():
    return Sublist()


@pytest.fixture
def failures():
    return []


@pytest.fixture
def router(sublist, failures):
    return Router(sublist, Random(1), failures.append)


def listen(sublist, subject: bytes, queue: bytes = b"", receiver=None):
    receiver = receiver or Recorder()
    sublist.insert(Subscription(subject, receiver, queue=queue, sid=b"1"))
    return receiver


def test_many_subjects_of_one_subscriber_stay_one_run(sublist, router):
    stream = listen(sublist, b"s.>")
    router.route(run_of(b"s.a", b"s.b", b"s.c", b"s.a"), None, 0)
    assert stream.stretches == [(0, 4)]


def test_a_run_is_cut_where_the_subscribers_change(sublist, router):
    left, right = listen(sublist, b"l.>"), listen(sublist, b"r.>")
    router.route(run_of(b"l.1", b"l.2", b"r.1", b"l.3", b"none"), None, 0)
    assert left.stretches == [(0, 2), (3, 4)]
    assert right.stretches == [(2, 3)]


def test_a_change_of_interest_is_seen_at_once(sublist, router):
    first = listen(sublist, b"a")
    router.route(run_of(b"a"), None, 0)
    second = listen(sublist, b"a")
    router.route(run_of(b"a"), None, 0)
    assert first.messages == [0, 0] and second.messages == [0]


def test_interest_that_a_delivery_creates_counts_for_the_next_message(sublist, router):
    late = Recorder()

    class Creator(Recorder):
        def receive(self, stretch: Stretch) -> None:
            listen(sublist, b"made", receiver=late)

    listen(sublist, b"make", receiver=Creator())
    router.route(run_of(b"make", b"made"), None, 0)
    assert late.messages == [1]


def test_each_message_goes_to_one_member_of_a_queue_group(sublist, router):
    members = [listen(sublist, b"q", b"g") for _ in range(3)]
    other = listen(sublist, b"q", b"h")
    router.route(run_of(*[b"q"] * 300), None, 0)
    assert sorted(i for member in members for i in member.messages) == list(range(300))
    assert all(len(member.messages) > 50 for member in members)
    assert other.stretches == [(0, 300)]


def test_a_publisher_without_echo_is_passed_over(sublist, router):
    publisher = Publisher()
    publisher.echo = False
    listen(sublist, b"a", receiver=publisher)
    listen(sublist, b"q", b"g", receiver=publisher)
    router.route(run_of(b"a", b"q", b"none"), publisher, 0)
    assert publisher.messages == []
    assert publisher.unheard == [0, 1, 2]


def test_part_of_a_run_can_be_routed(sublist, router):
    stream = listen(sublist, b">")
    router.route(run_of(b"a", b"b", b"c", b"d"), None, 0, 1, 3)
    assert stream.messages == [1, 2]


def test_the_cache_does_not_grow_without_bound(sublist, router, monkeypatch):
    monkeypatch.setattr("jetstream_server.node.router.ROUTES_MAX", 10)
    stream = listen(sublist, b">")
    for turn in range(20):
        router.route(run_of(*(b"s.%d.%d" % (turn, n) for n in range(5))), None, 0)
    assert stream.messages == list(range(5)) * 20
    assert len(router._routes) <= 15


def test_what_the_cache_holds_has_a_bound_in_bytes(sublist, router, monkeypatch):
    monkeypatch.setattr("jetstream_server.node.router.ROUTES_BYTES_MAX", 10_000)
    for _ in range(30):
        listen(sublist, b">")
    singles = [listen(sublist, b"s.%d" % n) for n in range(50)]
    router.route(run_of(*(b"s.%d" % n for n in range(50))), None, 0)
    assert [each.messages for each in singles] == [[n] for n in range(50)]
    assert len(router._routes) == len(router._shared) <= 8
    router.route(run_of(*(b"%04000d" % n for n in range(50))), None, 0)
    assert len(router._routes) <= 4 and len(router._shared) == 1
    few = [b"s.%d" % n for n in range(3)]
    for _ in range(5):  # what is not much is not counted again each time
        router.route(run_of(*few), None, 0)
    assert set(few) <= router._routes.keys()


def test_acks_are_routed_by_what_they_share(sublist, router):
    stream = b"$JS.ACK.S.C"
    acks = listen(sublist, stream + b".*.*.*.*.*")
    others = listen(sublist, b"$JS.ACK.S.D.*.*.*.*.*")
    subjects = [b"%b.1.%d.%d.9.0" % (stream, n, n) for n in range(1, 100)]
    router.route(run_of(*subjects, b"$JS.ACK.S.D.1.1.1.9.0", subjects[0]), None, 0)
    assert acks.stretches == [(0, 99), (100, 101)]
    assert others.stretches == [(99, 100)]
    assert not router._routes
    assert [len(family) for family in router._families] == [0, 0, 0, 0, 0, 2]


def test_subjects_are_routed_by_the_shortest_prefix_that_tells(sublist, router):
    stream = listen(sublist, b"s.>")
    run = run_of(*(b"s.%d.k.%d" % (n, n % 3) for n in range(50)))
    router.route(run, None, 0)
    assert stream.stretches == [(0, 50)]
    assert (router._routes, router._families[3].keys()) == ({}, {b"s"})
    own = listen(sublist, b"s.7.k.*")
    router.route(run, None, 0)
    assert own.messages == [7]
    assert stream.messages == list(range(50)) * 2
    assert [len(family) for family in router._families] == [0, 1, 49, 0, 0, 0]


def test_one_subject_of_many_may_have_a_listener_of_its_own(sublist, router):
    stream, spy = listen(sublist, b"s.*"), listen(sublist, b"s.3")
    router.route(run_of(*(b"s.%d" % n for n in range(6)), b"s.7.deeper"), None, 0)
    assert stream.messages == [0, 1, 2, 3, 4, 5]
    assert spy.stretches == [(3, 4)]


class Damaged:
    """Stands for a consumer whose stream's disk disagrees."""

    def receive(self, stretch: Stretch) -> None:
        raise StoreError("a stored record is damaged", "1.blk", 7)


def test_a_store_that_fails_takes_nobody_else_down(sublist, router, failures):
    listen(sublist, b"s.a", receiver=Damaged())
    listen(sublist, b"s.a", queue=b"q", receiver=Damaged())
    other = listen(sublist, b"s.*")
    router.route(run_of(b"s.a", b"s.b"), None, 0)
    assert len(failures) == 2
    assert [index for start, stop in other.stretches for index in range(start, stop)] == [0, 1]


@pytest.mark.parametrize("seed", range(30))
def test_everybody_gets_what_the_sublist_says(sublist, router, seed):
    """Whatever is kept of prefixes, while interest comes and subjects repeat and vary."""
    random = Random(seed)
    tokens = [b"a", b"b", b"c", b"$JS", b"ACK"]
    listeners = []
    for _ in range(30):
        if random.random() < 0.3:
            depth = random.randrange(1, 6)
            words = [random.choice([*tokens, b"*"]) for _ in range(depth)]
            pattern = b".".join([*words, b">"] if random.random() < 0.4 else words)
            listeners.append((pattern, listen(sublist, pattern)))
        subjects = [
            b".".join(
                random.choice([*tokens, b"%d" % index]) for _ in range(random.randrange(1, 7))
            )
            for index in range(random.randrange(1, 20))
        ]
        router.route(run_of(*subjects), None, 0)
        for pattern, listener in listeners:
            expected = [at for at, subject in enumerate(subjects) if matches(pattern, subject)]
            assert listener.messages == expected, (pattern, subjects)
            listener.stretches.clear()


class Turns:
    """A router whose turns have time for so many deliveries and new subjects, and what a publisher
    has to wait for."""

    def __init__(self, sublist: Sublist, left: int, subjects_left: int = 10) -> None:
        self._left = left
        self._subjects_left = subjects_left
        self.clients: set[object] = set()  # that are to be sent something
        self.deliveries = Deliveries(self.clients)
        self.router = Router(sublist, Random(1), lambda error: None, deliveries=self.deliveries)
        self.answers = Answers(SimpleNamespace(backlog_bytes=0), lambda: None)
        self._begin()

    def _begin(self) -> None:
        self.deliveries.begin()
        self.deliveries.left = self._left
        self.deliveries.subjects_left = self._subjects_left

    def publish(self, run: PubRun, publisher: Publisher) -> int:
        """Publish a run; return how many turns that took."""
        turns, routed = 1, self.router.route(run, publisher, 0, answers=self.answers)
        while self.answers.postponed or routed < run.count:
            turns += 1
            assert turns < 1000
            self._begin()
            if self.answers.postponed:
                self.answers.resume(0)
            if not self.answers.postponed:
                routed = self.router.route(run, publisher, 0, routed, answers=self.answers)
        return turns


def test_what_reaches_very_many_takes_turns_and_each_gets_it_once(sublist):
    turns = Turns(sublist, 100)
    plain = [listen(sublist, b"a") for _ in range(250)]
    groups = [listen(sublist, b"a", b"%d" % n) for n in range(70)]
    narrow = listen(sublist, b"b")
    publisher = Publisher()
    assert turns.publish(run_of(b"a", b"b", b"a", b"a"), publisher) > 5
    assert all(each.messages == [0, 2, 3] for each in plain + groups)
    assert narrow.messages == [1] and publisher.unheard == []


@pytest.mark.parametrize("asked", [16, 0])
def test_what_reaches_more_than_are_collected_comes_to_all_of_them_in_turns(
    sublist, monkeypatch, asked
):
    monkeypatch.setattr(match_module, "COLLECTED_AT_ONCE_MAX", 100)
    monkeypatch.setattr(match_module, "PIECE_MAX", 20)
    monkeypatch.setattr(match_module, "_PATTERNS_ASKED", asked)
    turns = Turns(sublist, 50)
    plain = [listen(sublist, b"a") for _ in range(250)]
    groups = [listen(sublist, b"a", b"%d" % n) for n in range(70)]
    shared = [
        (listen(sublist, b"a", b"s%d" % n), listen(sublist, b"*", b"s%d" % n)) for n in (1, 2)
    ]
    narrow, publisher = listen(sublist, b"b.c"), Publisher()
    assert turns.publish(run_of(b"a", b"b.c", b"a", b"a"), publisher) > 20
    assert all(each.messages == [0, 2, 3] for each in plain + groups)
    assert all(sorted(one.messages + other.messages) == [0, 2, 3] for one, other in shared)
    assert narrow.messages == [1] and publisher.unheard == []


@pytest.mark.parametrize("taken", [True, False])
def test_the_publisher_is_told_of_what_no_one_of_very_many_takes(sublist, monkeypatch, taken):
    monkeypatch.setattr(match_module, "COLLECTED_AT_ONCE_MAX", 10)
    monkeypatch.setattr(match_module, "PIECE_MAX", 3)

    class Choosy(Recorder):
        def chooses(self, subscription, subject, sender):
            return taken and subscription.sid == b"30"

    for sid in range(50):
        sublist.insert(Subscription(b"a", Choosy(), sid=b"%d" % sid, is_filtered=True))
    turns, publisher = Turns(sublist, 50), Publisher()
    turns.publish(run_of(b"a", b"a"), publisher)
    assert publisher.unheard == ([] if taken else [0, 1])


def test_the_publisher_is_told_of_what_reaches_only_itself(sublist, monkeypatch):
    monkeypatch.setattr(match_module, "COLLECTED_AT_ONCE_MAX", 10)
    turns, publisher = Turns(sublist, 50), Publisher()
    publisher.echo = False
    for _ in range(40):
        listen(sublist, b"a", receiver=publisher)
    turns.publish(run_of(b"a", b"a"), publisher)
    assert publisher.unheard == [0, 1] and publisher.messages == []


class ManyAtOnce(Recorder):
    """A client that notes what each of its subscriptions is sent."""

    headers = True
    backlog_bytes = 0

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[bytes, int]] = []
        self.calls = 0

    def receive(self, stretch: Stretch) -> None:
        self.receive_for_each([stretch.subscription], stretch)

    def receive_for_each(self, subscriptions: list[Subscription], stretch: Stretch) -> None:
        self.calls += 1
        self.heard += [(each.sid, at) for each in subscriptions for at in stretch.indices]

    def deliver_frames(self, *given) -> None:
        raise AssertionError("these are for consumers")


class Counted(ManyAtOnce):
    """A client that is counted among those who are to be sent something."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def receive(self, stretch: Stretch) -> None:
        super().receive(stretch)
        self._turns.clients.add(self)


def counted(turns: Turns, sublist: Sublist, subject: bytes) -> Counted:
    client = Counted(turns)
    sublist.insert(Subscription(subject, client, sid=b"1", outlet=client))
    return client


def test_what_reaches_very_many_clients_takes_turns_however_little_it_costs(sublist):
    """To send something to each of ten thousand took 280 ms in one turn."""
    turns = Turns(sublist, DELIVERIES_OF_TURN_MAX)
    clients = [counted(turns, sublist, b"a") for _ in range(5 * CLIENTS_OF_TURN_MAX)]
    assert turns.publish(run_of(b"a", b"a"), Publisher()) == 5
    assert all(each.heard == [(b"1", 0), (b"1", 1)] for each in clients)


def test_messages_for_a_client_each_take_turns_where_these_are_many(sublist):
    turns = Turns(sublist, DELIVERIES_OF_TURN_MAX, subjects_left=10_000)
    count = 3 * CLIENTS_OF_TURN_MAX
    clients = [counted(turns, sublist, b"inbox.%d" % number) for number in range(count)]
    stream = listen(sublist, b"s")
    run = run_of(*(b"inbox.%d" % number for number in range(count)), b"s")
    assert turns.publish(run, Publisher()) == 3
    assert [each.heard for each in clients] == [[(b"1", number)] for number in range(count)]
    assert stream.messages == [count]


@pytest.mark.parametrize("queue", [b"", b"_sys_"])
def test_a_stream_takes_messages_however_many_clients_are_to_be_sent_something(sublist, queue):
    turns = Turns(sublist, DELIVERIES_OF_TURN_MAX)
    stream = listen(sublist, b"s", queue=queue)
    turns.clients |= set(range(CLIENTS_OF_TURN_MAX))
    turns.router.route(run_of(b"s", b"s"), Publisher(), 0, answers=turns.answers)
    assert stream.messages == [0, 1]


@pytest.mark.parametrize("left", [100, DELIVERIES_OF_TURN_MAX])
def test_of_very_many_those_of_one_client_are_sent_together_and_each_once(sublist, left):
    turns, clients = Turns(sublist, left), [ManyAtOnce() for _ in range(3)]
    others = []
    for number in range(90):
        others.append(listen(sublist, b"a"))
        for client in clients[: 1 + number % 2]:
            sublist.insert(Subscription(b"a", client, sid=b"%d" % number, outlet=client))
    sublist.insert(Subscription(b"a", clients[2], sid=b"0", outlet=clients[2]))
    gone = Subscription(b"a", clients[0], sid=b"gone", outlet=clients[0])
    sublist.insert(gone)
    gone.closed = True
    publisher = Publisher()
    turns.publish(run_of(b"a", b"b", b"a"), publisher)
    expected = [(b"%d" % number, at) for number in range(90) for at in (0, 2)]
    assert sorted(clients[0].heard) == sorted(expected)
    assert sorted(clients[1].heard) == sorted(each for each in expected if int(each[0]) % 2)
    assert sorted(clients[2].heard) == [(b"0", 0), (b"0", 2)]
    assert all(each.messages == [0, 2] for each in others) and publisher.unheard == [1]
    if left > 1000:
        assert [client.calls for client in clients] == [2, 2, 2]


def test_of_very_many_who_is_alone_in_a_group_is_sent_as_if_in_none(sublist):
    client, pair = ManyAtOnce(), [ManyAtOnce() for _ in range(2)]
    for number in range(100):
        queue = b"q%d" % number
        sublist.insert(Subscription(b"a", client, queue=queue, sid=b"%d" % number, outlet=client))
    for each in pair:
        sublist.insert(Subscription(b"a", each, queue=b"pair", sid=b"p", outlet=each))
    publisher = Publisher()
    Turns(sublist, DELIVERIES_OF_TURN_MAX).publish(run_of(b"a", b"a", b"b"), publisher)
    assert sorted(client.heard) == sorted((b"%d" % n, at) for n in range(100) for at in (0, 1))
    assert client.calls == 1
    assert sorted(pair[0].heard + pair[1].heard) == [(b"p", 0), (b"p", 1)]
    assert publisher.unheard == [2]


@pytest.mark.parametrize("echo", [True, False])
def test_of_very_many_a_publishers_own_are_passed_over_as_it_wishes(sublist, echo):
    class Both(ManyAtOnce, Publisher):
        """A client that publishes to itself."""

    publisher = Both()
    publisher.echo = echo
    for number in range(100):
        sublist.insert(Subscription(b"a", publisher, sid=b"%d" % number, outlet=publisher))
    Turns(sublist, DELIVERIES_OF_TURN_MAX).publish(run_of(b"a"), publisher)
    assert len(publisher.heard) == 100 * echo and publisher.unheard == [0] * (not echo)


def test_who_of_very_many_fails_fails_alone(sublist):
    class Failing(ManyAtOnce):
        def receive_for_each(self, *given):
            raise ValueError("nobody foresaw this")

    contained = []
    containment = SimpleNamespace(contain=lambda error, now: contained.append(error))
    router = Router(sublist, Random(1), lambda error: None, containment)
    failing, other = Failing(), ManyAtOnce()
    for number in range(100):
        for client in (failing, other):
            sublist.insert(Subscription(b"a", client, sid=b"%d" % number, outlet=client))
    router.route(run_of(b"a"), None, 0)
    assert len(contained) == 1 and len(other.heard) == 100


def test_many_messages_to_many_cost_them_less_each(sublist):
    turns = Turns(sublist, DELIVERIES_OF_TURN_MAX)
    heard = [listen(sublist, b"a") for _ in range(2000)]
    assert turns.publish(run_of(*[b"a"] * 320), Publisher()) < 16
    assert all(each.messages == list(range(320)) for each in heard)


def test_what_takes_longer_to_deliver_counts_as_more(sublist):
    """A message that 300 other accounts imported took as long as four times as many deliveries."""
    taken = []
    for weight in (1, 4):
        turns = Turns(sublist, 1000)
        heard = [listen(sublist, b"w%d" % weight) for _ in range(200)]
        for subscription in sublist.match(b"w%d" % weight).plain:
            subscription.weight = weight
        taken.append(turns.publish(run_of(*[b"w%d" % weight, b"w%d" % weight] * 100), Publisher()))
        assert all(each.messages == list(range(200)) for each in heard)
    assert taken[1] > 2 * taken[0]


def test_nobody_of_very_many_is_nobody(sublist):
    turns, publisher = Turns(sublist, 50), Publisher()
    publisher.echo = False
    for _ in range(200):
        listen(sublist, b"a", receiver=publisher)
    assert turns.publish(run_of(b"a"), publisher) > 1
    assert publisher.unheard == [0] and publisher.messages == []


def test_who_leaves_meanwhile_gets_nothing(sublist):
    turns = Turns(sublist, 50)
    heard = [listen(sublist, b"a") for _ in range(200)]
    last = list(sublist.match(b"a").plain)[-1]
    turns.router.route(run_of(b"a"), Publisher(), 0, answers=turns.answers)
    assert turns.answers.postponed
    sublist.remove(last)
    turns.publish(run_of(b"b"), Publisher())
    assert all(each.messages == [0] for each in heard[:-1]) and heard[-1].messages == []


def test_subjects_that_are_new_take_time_as_well(sublist):
    turns = Turns(sublist, 100)
    heard = listen(sublist, b"*.x.*")
    subjects = [b"%d.x.%d" % (n, n) for n in range(300)]
    assert turns.publish(run_of(*subjects), Publisher()) > 20
    assert heard.messages == list(range(300))


@pytest.mark.parametrize("is_server", [False, True])
def test_a_subject_that_meets_many_patterns_takes_turns(sublist, monkeypatch, is_server):
    """65,536 of them held everybody up for 20 ms with each subject."""
    monkeypatch.setattr(sublist_module, "_NODES_OF_STEP", 100)
    turns, publisher = Turns(sublist, 100), Publisher()
    heard = Recorder()
    for number in range(1 << 13):
        tokens = [b"*" if number >> place & 1 else b"a" for place in range(13)]
        end = b"%d" % (number % 2000)
        sublist.insert(Subscription(b".".join([*tokens, end]), heard, sid=b"1"))
    few = listen(sublist, b"b")
    run = run_of(b"b", b"a." * 13 + b"7", b"b", b"a." * 13 + b"7", b"a." * 13 + b"none")
    looked_at = []
    if is_server:
        assert turns.router.route(run, None, 0) == run.count
    else:
        begin = turns._begin

        def noted():
            assert turns.deliveries.are_spent, "or somebody else has the same again in this turn"
            looked_at.append(sublist.looked_at)
            begin()

        monkeypatch.setattr(turns, "_begin", noted)
        assert turns.publish(run, publisher) > 20
        most = 10 * NODES_OF_SUBJECT + 2 * 100 + 2 * sublist_module._BRANCHES_OF_PREFIX
        assert max(after - before for before, after in pairwise(looked_at)) < most
        assert publisher.unheard == [4]
    assert few.messages == [0, 2] and sorted(heard.messages) == [1] * 5 + [3] * 5


@pytest.mark.parametrize("is_server", [False, True])
def test_nobody_gets_a_stretch_without_messages_when_the_time_is_up(sublist, is_server):
    turns, publisher = Turns(sublist, 100, 1), Publisher()
    heard = listen(sublist, b"*.x.*")
    run = run_of(*(b"%d.x.%d" % (n, n) for n in range(5)), *(b"%d.y" % n for n in range(5)))
    if is_server:
        assert turns.router.route(run, None, 0) == 10
    else:
        assert turns.publish(run, publisher) == 10
        assert publisher.unheard == list(range(5, 10))
    assert heard.messages == list(range(5))
    assert all(start < stop for start, stop in heard.stretches)


def test_a_long_subject_takes_the_time_of_many(sublist):
    turns = Turns(sublist, 100)
    heard = listen(sublist, b"*.*")
    subjects = [b"%d.%b" % (n, b"x" * 700) for n in range(50)]
    assert turns.publish(run_of(*subjects), Publisher()) == 50
    assert heard.messages == list(range(50))


def test_what_reaches_few_by_a_known_subject_waits_for_nothing(sublist):
    turns, publisher = Turns(sublist, 0, 0), Publisher()
    few = listen(sublist, b"few.>")
    many = [listen(sublist, b"many") for _ in range(100)]
    run = run_of(b"few.x", b"few.x", b"few.x", b"many", b"few.x", b"new", b"few.x")
    turns.router.route(run_of(b"few.x", b"many"), None, 0)
    few.stretches.clear()
    # So far it comes without any time, again and again.
    for _ in range(3):
        assert turns.router.route(run, publisher, 0, answers=turns.answers) == 3
    assert few.messages == [0, 1, 2] * 3
    turns.deliveries.left = 1000
    assert turns.router.route(run, publisher, 0, 3, answers=turns.answers) == 5
    assert all(each.messages == [1, 3] for each in many)
    turns.deliveries.subjects_left = 1
    assert turns.router.route(run, publisher, 0, 5, answers=turns.answers) == 7
    assert few.messages == [0, 1, 2] * 3 + [4, 6] and publisher.unheard == [5]


def test_own_members_of_a_large_group_are_passed_over_together(sublist):
    turns, publisher = Turns(sublist, 50), Publisher()
    publisher.echo = False
    for _ in range(1000):
        listen(sublist, b"a", b"g", receiver=publisher)
    other = listen(sublist, b"a", b"g")
    turns.publish(run_of(*[b"a"] * 50), publisher)
    assert other.messages == list(range(50)) and publisher.unheard == []


def test_the_server_itself_does_not_wait(sublist):
    turns = Turns(sublist, 50)
    heard = [listen(sublist, b"a") for _ in range(200)]
    assert turns.router.route(run_of(b"a", b"a"), None, 0) == 2
    assert all(each.messages == [0, 1] for each in heard)
    assert not turns.router.has_time


def test_what_is_much_to_copy_takes_turns_and_each_gets_it_once(sublist):
    turns = Turns(sublist, DELIVERIES_OF_TURN_MAX)
    heard = [listen(sublist, b"a") for _ in range(100)]
    run = PubRun.of((b"a", b"", b"", bytes(400_000)) for _ in range(2))
    assert turns.publish(run, Publisher()) > 20
    assert all(each.messages == [0, 1] for each in heard)


def test_what_is_left_of_a_turn_and_not_enough_for_one_more_is_nothing(sublist):
    turns = Turns(sublist, 1000)
    for _ in range(700):
        listen(sublist, b"a")
    run = PubRun.of([(b"a", b"", b"", bytes(5000))])
    turns.router.route(run, Publisher(), 0, answers=turns.answers)
    assert turns.answers.postponed and turns.deliveries.are_spent


def test_messages_for_a_group_are_divided_as_turns_have_time(sublist, failures):
    """For each of them a member is chosen: thirty thousand took 0.09 s."""
    deliveries = Deliveries()
    router = Router(sublist, Random(1), failures.append, deliveries=deliveries)
    members = [listen(sublist, b"q", queue=b"g") for _ in range(2)]
    run, at, turns = run_of(*[b"q"] * 9000), 0, []
    answers = Answers(SimpleNamespace(backlog_bytes=0), lambda: None)
    while at < run.count:
        deliveries.begin()
        before = at
        while (reached := router.route(run, None, 0, at, answers=answers)) > at:
            at = reached
        turns.append(at - before)
    assert sorted(members[0].messages + members[1].messages) == list(range(9000))
    assert 1000 < max(turns) <= 2 * DELIVERIES_OF_TURN_MAX // 3 + 50


def test_one_member_gets_its_messages_at_once(sublist, failures):
    deliveries = Deliveries()
    router = Router(sublist, Random(1), failures.append, deliveries=deliveries)
    member = listen(sublist, b"q", queue=b"g")
    answers = Answers(SimpleNamespace(backlog_bytes=0), lambda: None)
    assert router.route(run_of(*[b"q"] * 20_000), None, 0, answers=answers) == 20_000
    assert member.stretches == [(0, 20_000)]


def test_one_member_that_does_not_want_its_own_leaves_them_to_nobody(sublist, router):
    publisher = Publisher()
    publisher.echo = False
    listen(sublist, b"q", queue=b"g", receiver=publisher)
    router.route(run_of(b"q", b"q"), publisher, 0)
    assert (publisher.messages, publisher.unheard) == ([], [0, 1])


@pytest.mark.parametrize("weight", [4, 1000])
def test_what_one_member_of_much_weight_gets_is_taken_off(sublist, failures, weight):
    deliveries = Deliveries()
    router = Router(sublist, Random(1), failures.append, deliveries=deliveries)
    member = listen(sublist, b"q", queue=b"g")
    sublist.match(b"q").queues[0][0].weight = weight
    answers = Answers(SimpleNamespace(backlog_bytes=0), lambda: None)
    before = deliveries.left
    assert router.route(run_of(b"q"), None, 0, answers=answers) == 1
    assert member.messages == [0] and before - deliveries.left >= weight


def test_those_that_may_not_take_all_are_counted(sublist):
    marks = SharedMark(), SharedMark()
    marks[1].set()
    plain = [Subscription(b"a", Recorder(), is_filtered=each) for each in (False, True, *marks)]
    group = tuple(Subscription(b"a", Recorder(), queue=b"q", is_filtered=x) for x in (True, False))
    targets = router_module.Targets(Match(plain, [group]))
    assert (targets.choosy_members, targets.choosy) == (1, 3)


def test_who_publishes_to_a_group_does_not_wait_for_who_publishes_to_many(sublist, failures):
    deliveries = Deliveries()
    router = Router(sublist, Random(1), failures.append, deliveries=deliveries)
    for _ in range(2):
        listen(sublist, b"q", queue=b"g")
    deliveries.left = -1
    answers = Answers(SimpleNamespace(backlog_bytes=0), lambda: None)
    assert router.route(run_of(b"q", b"q"), None, 0, answers=answers) == 2


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("clients", [1, 7, 300])
@pytest.mark.parametrize("odd", ["none", "within", "weight", "alone"])
def test_whom_a_subject_reaches_costs_as_much_however_it_is_counted(
    monkeypatch, is_wide, clients, odd
):
    monkeypatch.setattr(router_module, "COST_AT_ONCE_MAX", 20 if is_wide else 10_000)
    receivers = [Recorder() for _ in range(clients)]
    plain = [
        Subscription(b"a", receivers[n % clients], outlet=receivers[n % clients])
        for n in range(300)
    ]
    groups = [(Subscription(b"a", receivers[0], queue=b"q", outlet=receivers[0]),) * 2]
    if odd == "within":
        plain[5] = Subscription(b"a", receivers[0], weight=4)
    elif odd == "weight":
        plain[5].weight = 4
    elif odd == "alone":
        groups.append((Subscription(b"a", receivers[0], queue=b"r", outlet=receivers[0]),))
    targets = router_module.Targets(Match(plain, groups))
    assert targets.is_within == (odd == "within")
    assert targets.singly == 3 + 4 * (odd == "within")
    more = {"none": 0, "within": 3, "weight": 3, "alone": 2}[odd]
    assert targets.cost == 300 + 1 + 1 + more
    if is_wide:
        assert targets.repeats == (clients < 300 or odd in ("alone",))
        assert len(targets.queues) == 1
        outlets = [each.outlet or each for each in targets.plain]
        assert len(list(groupby(outlets))) == len(set(outlets)), "those of one are together"
    assert set(targets.plain) >= set(plain)


@pytest.mark.parametrize("left", [DELIVERIES_OF_TURN_MAX, -1])
def test_what_is_delivered_one_by_one_is_taken_off_when_it_is_delivered(sublist, failures, left):
    """Many groups, and messages that are not small: the turn's last part was used up by messages
    for which there was no time then."""
    deliveries = Deliveries()
    router = Router(sublist, Random(1), failures.append, deliveries=deliveries)
    members = [listen(sublist, b"q", queue=b"g%d" % (n // 2)) for n in range(60)]
    for group in sublist.match(b"q").queues:
        for member in group:
            member.weight = 4  # as those of other accounts have
    run = PubRun.of((b"q", b"", b"", b"x" * 200) for _ in range(50))
    deliveries.left = left
    answers = Answers(SimpleNamespace(backlog_bytes=0), lambda: None)
    assert router.route(run, None, 0, answers=answers) == 50
    assert sum(len(member.messages) for member in members) == 30 * 50
