"""The subscription list, case by case; its model is `tests/models/test_sublist_model.py`."""

import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from jetstream_server.core import sublist as sublist_module
from jetstream_server.core.subject import matches, overlaps
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Subscription
from jetstream_server.kernels.parts import PartedOrder
from jetstream_server.kernels.trie import TrieNode

NOBODY: Any = None  # no test here delivers anything


def subscribe(sublist: Sublist, subject: bytes, queue: bytes = b"") -> Subscription:
    sub = Subscription(subject, NOBODY, queue=queue)
    sublist.insert(sub)
    return sub


@pytest.fixture
def sublist() -> Sublist:
    return Sublist()


def test_plain_and_queue_subscriptions_are_apart(sublist: Sublist) -> None:
    plain = subscribe(sublist, b"a.b")
    one = subscribe(sublist, b"a.b", b"q")
    two = subscribe(sublist, b"a.*", b"q")
    other = subscribe(sublist, b">", b"r")
    match = sublist.match(b"a.b")
    assert match.plain == [plain]
    assert {frozenset(map(id, group)) for group in match.queues} == {
        frozenset({id(one), id(two)}),
        frozenset({id(other)}),
    }
    assert match.only is None
    assert not match.empty


def test_a_match_is_the_same_object_until_a_change_concerns_it(sublist: Sublist) -> None:
    subscribe(sublist, b"a.b")
    first = sublist.match(b"a.b")
    assert sublist.match(b"a.b") is first
    subscribe(sublist, b"a.c")
    assert sublist.match(b"a.b") is first
    subscribe(sublist, b"a.*")
    assert sublist.match(b"a.b") is not first
    assert first.only is not None


def test_generation_rises_with_each_change(sublist: Sublist) -> None:
    sub = subscribe(sublist, b"a")
    before = sublist.generation
    assert sublist.remove(sub)
    assert sublist.generation > before
    before = sublist.generation
    assert not sublist.remove(sub)
    assert sublist.generation == before


def test_removed_subscription_is_closed_and_leaves_nothing_behind(sublist: Sublist) -> None:
    subs = [
        subscribe(sublist, subject, queue)
        for subject in (b"a", b"a.b", b"a.*.c", b"a.>", b">", b"*")
        for queue in (b"", b"q", b"r")
    ]
    for sub in subs:
        assert sublist.remove(sub)
        assert sub.closed
    assert sublist.count == 0
    assert list(sublist) == []
    assert sublist_module._is_empty(sublist._root)


@pytest.mark.parametrize("queue", [b"", b"q"])
def test_removing_a_stranger_changes_nothing(sublist: Sublist, queue: bytes) -> None:
    known = subscribe(sublist, b"a.b", queue)
    for subject in (b"a.b", b"a", b"x", b"a.*", b">"):
        stranger = Subscription(subject, NOBODY, queue=queue)
        assert not sublist.remove(stranger)
        assert not stranger.closed
        assert not sublist.remove(Subscription(subject, NOBODY, queue=b"other"))
    assert list(sublist) == [known]


def test_wildcards_in_a_published_subject_are_literals(sublist: Sublist) -> None:
    literal = subscribe(sublist, b"a.b")
    star = subscribe(sublist, b"a.*")
    assert sublist.match(b"a.*").plain == [star]
    assert sublist.match(b"a.>").plain == [star]
    assert sublist.match(b">").empty
    assert sorted(map(id, sublist.match(b"a.b").plain)) == sorted(map(id, [literal, star]))


@pytest.mark.parametrize("malformed", [b"", b".", b"a.", b".a", b"a..b"])
def test_malformed_subjects_match_nothing(sublist: Sublist, malformed: bytes) -> None:
    for pattern in (b">", b"*", b"*.*", b"*.*.*", b"a.>"):
        subscribe(sublist, pattern)
    assert sublist.match(malformed).empty
    assert not sublist.has_interest(malformed)
    assert sublist.match_prefix(malformed) is None


def test_match_one(sublist: Sublist) -> None:
    star = subscribe(sublist, b"a.*")
    assert sublist.match_one(b"a.b") is star
    subscribe(sublist, b"a.b", b"q")
    assert sublist.match_one(b"a.b") is None
    assert sublist.match_one(b"a.c") is star
    assert sublist.match_one(b"x") is None


def test_match_prefix_answers_for_an_inbox(sublist: Sublist) -> None:
    inbox = subscribe(sublist, b"_INBOX.abc.*")
    assert sublist.match_prefix(b"_INBOX.abc") is inbox
    assert sublist.match_prefix(b"_INBOX.xyz") is None
    assert sublist.match_prefix(b"_INBOX") is None


def test_match_prefix_follows_changes(sublist: Sublist) -> None:
    inbox = subscribe(sublist, b"_INBOX.abc.*")
    assert sublist.match_prefix(b"_INBOX.abc") is inbox
    literal = subscribe(sublist, b"_INBOX.abc.x")
    assert sublist.match_prefix(b"_INBOX.abc") is None
    sublist.remove(literal)
    assert sublist.match_prefix(b"_INBOX.abc") is inbox
    deeper = subscribe(sublist, b"_INBOX.abc.x.y")
    assert sublist.match_prefix(b"_INBOX.abc") is inbox
    spy = subscribe(sublist, b"_INBOX.>")
    assert sublist.match_prefix(b"_INBOX.abc") is None
    sublist.remove(inbox)
    assert sublist.match_prefix(b"_INBOX.abc") is spy
    sublist.remove(spy)
    sublist.remove(deeper)
    queued = subscribe(sublist, b"_INBOX.abc.*", b"q")
    assert sublist.match_prefix(b"_INBOX.abc") is None
    sublist.remove(queued)
    tail = subscribe(sublist, b"_INBOX.abc.>")
    assert sublist.match_prefix(b"_INBOX.abc") is tail


def test_match_below_answers_when_all_extensions_are_alike(sublist: Sublist) -> None:
    ack = subscribe(sublist, b"$JS.ACK.S.C.*.*.*.*.*")
    for prefix, tokens in ((b"$JS.ACK.S.C", 5), (b"$JS.ACK.S.C.1.2", 3)):
        match = sublist.match_below(prefix, tokens)
        assert match is not None
        assert match.only is ack
    for prefix, tokens in ((b"$JS.ACK.S.C", 4), (b"$JS.ACK.S.C", 6), (b"$JS.ACK.S.D", 5)):
        match = sublist.match_below(prefix, tokens)
        assert match is not None
        assert match.empty
    assert sublist.match_below(b"$JS.ACK.S", 6) is None
    assert sublist.match_below(b"$JS..S", 1) is None
    spy = subscribe(sublist, b"$JS.>", b"q")
    match = sublist.match_below(b"$JS.ACK.S.C", 5)
    assert match is not None
    assert (match.plain, match.queues) == ([ack], [(spy,)])
    subscribe(sublist, b"$JS.ACK.S.C.*.7.*.*.*")
    assert sublist.match_below(b"$JS.ACK.S.C", 5) is None


def test_the_caches_are_bounded(sublist: Sublist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sublist_module, "CACHE_ENTRIES_MAX", 10)
    sub = subscribe(sublist, b">")
    for number in range(100):
        assert sublist.match(b"a.%d" % number).only is sub
        assert sublist.match_prefix(b"a.%d" % number) is sub
    assert len(sublist._matches) <= 10
    assert len(sublist._prefixes) <= 10


def test_many_literals(sublist: Sublist) -> None:
    subs = [subscribe(sublist, b"orders.%d.new" % n) for n in range(5000)]
    assert sublist.count == 5000
    assert sublist.match_one(b"orders.4711.new") is subs[4711]
    assert len(list(sublist)) == 5000
    for sub in subs:
        sublist.remove(sub)
    assert sublist_module._is_empty(sublist._root)


@pytest.mark.parametrize("queue", [b"", b"q"])
def test_many_subscribers_of_one_subject(sublist: Sublist, queue: bytes) -> None:
    subs = [subscribe(sublist, b"same", queue) for _ in range(20_000)]
    match = sublist.match(b"same")
    assert list(match.queues[0] if queue else match.plain) == subs
    for sub in reversed(subs):
        assert sublist.remove(sub)
        assert not sublist.remove(sub)
    assert sublist_module._is_empty(sublist._root)


def test_many_at_once_are_as_one_by_one() -> None:
    subjects = [b"a.b", b"a.*", b"*.b", b"a.>", b"a.b", b"c", b"c.d.e"]
    for count in range(len(subjects) + 1):
        one, many = Sublist(), Sublist()
        asked = [b"a.b", b"a.x", b"c", b"c.d.e", b"z"]
        for sublist in (one, many):
            for subject in asked:  # so that answers are remembered
                sublist.match(subject)
                sublist.match_prefix(subject)
        subs = [
            Subscription(each, NOBODY, queue=b"q" * (at % 2))
            for at, each in enumerate(subjects[:count])
        ]
        for sub in subs:
            one.insert(sub)
        calls: list[Subscription] = []
        watcher = Watcher(calls)
        many.watch(b">", watcher)
        before = many.generation
        many.insert_all(subs)
        assert many.generation == before + 1
        assert calls == subs
        assert (many.count, {*many}) == (one.count, {*one})
        for subject in asked:
            assert many.match(subject).plain == one.match(subject).plain
            assert many.match(subject).queues == one.match(subject).queues
            assert many.match_prefix(subject) is one.match_prefix(subject)
        for sub in subs:
            assert many.remove(sub)
        assert [*many] == []


class Watcher:
    """Notes who came."""

    def __init__(self, calls: list[Subscription]) -> None:
        self.calls = calls

    def inserted(self, sub: Subscription) -> None:
        self.calls.append(sub)

    def removed(self, sub: Subscription) -> None:
        pass


DEEP = b".".join([b"a"] * 1000)


def test_a_long_subject_is_no_long_way(sublist: Sublist) -> None:
    """A thousand tokens were a thousand nodes, and two thousand to take in and out again."""
    subs = [
        subscribe(sublist, b"%d.%b%b" % (number, DEEP, end))
        for number in range(10)
        for end in (b"", b".*", b".>")
    ]
    assert sublist.match(b"3." + DEEP).plain == [subs[9]]
    before = sublist.looked_at
    assert set(map(id, sublist.match(b"3." + DEEP + b".x").plain)) == set(map(id, subs[10:12]))
    nodes = sublist_module.TREE_TOKENS_MAX + 1
    assert sublist.looked_at - before == nodes + 2 * (1 + (len(DEEP) + 2 - 2 * 15) // 64)
    assert sublist.match_below(b"3." + DEEP, 1) is None
    assert sublist.match_prefix(b"3." + DEEP) is None
    assert sublist.match(b"3." + DEEP + b"..x").empty and sublist.match(b"3." + DEEP + b".").empty
    assert set(map(id, sublist)) == set(map(id, subs))
    for sub in subs:
        assert sublist.remove(sub)
    assert sublist_module._is_empty(sublist._root)


def test_how_many_ways_a_subject_has_gone_is_counted(sublist: Sublist) -> None:
    """Each star is a way of its own: two tokens, and four ways."""
    for subject in (b"a.a.x", b"a.*.x", b"*.a.x", b"*.*.x"):
        subscribe(sublist, subject)
    assert sublist.match(b"a.a.y").empty
    assert sublist.looked_at == 1 + 2 + 4
    assert sublist.match(b"a.a.y").empty
    assert sublist.looked_at == 1 + 2 + 4, "it is remembered"


def test_answers_that_reach_many_weigh_more_in_the_cache(
    sublist: Sublist, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight thousand that reached a thousand each were 64 MB, and 40 ms of each collection."""
    monkeypatch.setattr(sublist_module, "CACHE_ENTRIES_MAX", 50)
    for _ in range(16 * 9):
        subscribe(sublist, b">")
    for number in range(100):
        assert sublist.match(b"a.%d" % number).width == 144
        assert len(sublist._matches) <= 5
    one = subscribe(sublist, b"a.99")
    assert sublist._weight == 10 * len(sublist._matches)
    sublist.match(b"a.99")
    assert sublist.remove(one)
    assert sublist._weight == 10 * len(sublist._matches)


def branching(sublist: Sublist, stars: int = 13) -> tuple[bytes, list[Subscription]]:
    """Have patterns of which a subject meets every one; return it, and those that it reaches."""
    reached: list[Subscription] = []
    for number in range(1 << stars):
        tokens = [b"*" if number >> place & 1 else b"a" for place in range(stars)]
        end = b"y" if number % 100 else b"x"
        made = subscribe(sublist, b".".join([*tokens, end]))
        if end == b"x":
            reached.append(made)
    reached.append(subscribe(sublist, b"a.>"))
    return b"a." * stars + b"x", reached


def test_a_subject_that_meets_many_patterns_is_looked_up_in_steps(
    sublist: Sublist, monkeypatch: pytest.MonkeyPatch
) -> None:
    """65,536 of them took 20 ms for each subject, in one go."""
    monkeypatch.setattr(sublist_module, "_NODES_OF_STEP", 512)
    subject, reached = branching(sublist)
    looked_at = [sublist.looked_at]
    while (match := sublist.match_in_steps(subject, 1000)) is None:
        looked_at.append(sublist.looked_at)
    assert set(match.plain) == set(reached)
    assert sublist.match_in_steps(subject, 0) is match is sublist.match(subject)
    steps = [after - before for before, after in pairwise(looked_at)]
    assert len(steps) > 10 and max(steps) < 1000 + 2 * 512
    in_steps = sublist.looked_at
    other = Sublist()
    other.insert_all(list(sublist))
    other.match(subject)
    assert in_steps == other.looked_at, "nothing is looked at twice"
    assert set(sublist.match(b"a" + subject[1:]).plain) == set(reached)


def test_what_meets_few_is_looked_up_at_once(sublist: Sublist) -> None:
    deep = b".".join([b"a"] * 15)
    made = [subscribe(sublist, deep), subscribe(sublist, b"a.b")]
    for subject, found in ((deep, made[:1]), (b"a.b", made[1:]), (b"a..b", []), (deep + b".", [])):
        match = sublist.match_in_steps(subject, 1)
        while match is None:
            match = sublist.match_in_steps(subject, 1)
        assert match.plain == found


def test_interest_that_changes_again_and_again_does_not_keep_a_subject_from_being_looked_up(
    sublist: Sublist, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sublist_module, "_NODES_OF_STEP", 512)
    subject, reached = branching(sublist)
    turns = 0
    while (match := sublist.match_in_steps(subject, 100)) is None:
        turns += 1
        reached.append(subscribe(sublist, subject))
        assert sublist.match_in_steps(b"a." * 13 + b"%d" % turns, sys.maxsize), "as others ask"
    assert turns == 1 and set(match.plain) == set(reached)


def test_many_look_ups_that_nobody_goes_on_with_hold_up_nobody(
    sublist: Sublist, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sublist_module, "_NODES_OF_STEP", 512)
    _, _ = branching(sublist)
    subjects = [b"a." * 13 + b"%d" % number for number in range(30)]
    for _ in range(2):
        asked = [sublist.match_in_steps(subject, 1) for subject in subjects]
        assert asked.count(None) <= sublist_module._SEARCHES_MAX
        subscribe(sublist, b"other")
    assert len(sublist._searches) + len(sublist._cut_short) <= sublist_module._SEARCHES_MAX


def test_what_holds_after_a_prefix_is_not_looked_for_among_very_many_patterns(
    sublist: Sublist,
) -> None:
    subject, _ = branching(sublist)
    prefix = subject.rpartition(b".")[0]
    before = sublist.looked_at
    assert sublist.match_below(prefix, 1) is None
    assert sublist.looked_at - before < 2 * sublist_module._BRANCHES_OF_PREFIX
    other = Sublist()
    few = [subscribe(other, b"b." * 14 + b"*"), subscribe(other, b"*." * 14 + b"*")]
    match = other.match_below(b"b." * 13 + b"b", 1)
    assert match is not None and set(match.plain) == set(few)


def test_what_holds_after_a_prefix_is_not_looked_for_among_very_many_that_follow(
    sublist: Sublist,
) -> None:
    for number in range(sublist_module._BRANCHES_OF_PREFIX):
        subscribe(sublist, b"a.%d.x" % number)
    one = subscribe(sublist, b"a.*")
    assert sublist.match_prefix(b"a") is one
    subscribe(sublist, b"a.b.x")
    sublist._prefixes.clear()
    assert sublist.match_prefix(b"a") is None


_DEEP = b"a." * 16


def very_many(kind: str, number: int) -> tuple[bytes, bytes]:
    """Return subject and queue of one of very many that are alike."""
    subject = {"literals": b"a.%d.x", "wild": _DEEP + b"*.%d"}.get(kind, b"a")
    queue = {"queues": b"q%d", "group": b"q"}.get(kind, b"")
    return (subject % number if b"%" in subject else subject, queue.replace(b"%d", b"%d" % number))


def held_by(node: TrieNode) -> Iterator[list[Any] | dict[Any, Any]]:
    """Yield each list and dictionary below a node."""
    waiting: list[Any] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, TrieNode):
            waiting += [one.literals, one.wild, one.star, one.tail, one.plain, one.queues]
        elif isinstance(one, PartedOrder):
            waiting += one.parts
        elif isinstance(one, list | dict):
            yield one
            waiting += one.values() if isinstance(one, dict) else ()


@pytest.mark.parametrize("kind", ["literals", "wild", "plain", "group", "queues"])
def test_nothing_grows_in_one_piece(sublist: Sublist, kind: str) -> None:
    count, part_max = 90_000, 87_381
    kinds = [very_many(kind, number) for number in range(count)]
    subs = [subscribe(sublist, *each) for each in kinds]
    sizes = sorted(map(len, held_by(sublist._root)))
    assert sizes[-1] == part_max and count - part_max in sizes
    assert set(sublist) == set(subs)
    assert list(map(sublist.remove, subs)) == [True] * count
    assert (sublist.count, sublist._root.literals) == (0, None)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what is many be few."""
    monkeypatch.setattr(sublist_module, "_TUPLE_MEMBERS_MAX", 2)
    monkeypatch.setattr(sublist_module, "NAMES_ALONE_MAX", 3)
    monkeypatch.setattr(sublist_module, "PartedOrder", partial(PartedOrder, part_max=4))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("seed", range(20))
def test_very_many_are_found_as_few_are(sublist: Sublist, seed: int) -> None:
    random = Random(seed)
    held: list[Subscription] = []
    comes = 0.8
    for step in range(400):
        comes = random.choice([0.2, 0.8]) if step % 80 == 0 else comes
        if random.random() < comes:
            kind = random.choice(["literals", "wild", "plain", "group", "queues"])
            held.append(subscribe(sublist, *very_many(kind, random.randrange(40))))
        elif held:
            assert sublist.remove(held.pop(random.randrange(len(held))))
        if step % 20:
            continue
        assert set(sublist) == set(held) and sublist.count == len(held)
        for subject in (b"a.7.x", b"a", _DEEP + b"b.7", b"a.x"):
            match = sublist.match(subject)
            reached = {each for each in held if matches(each.subject, subject)}
            assert set(match.plain) == {each for each in reached if not each.queue}
            groups: dict[bytes, set[Subscription]] = {}
            for each in reached:
                if each.queue:
                    groups.setdefault(each.queue, set()).add(each)
            found = {next(iter(group)).queue: set(group) for group in match.queues}
            assert found == groups and len(match.queues) == len(groups)
        for pattern in (b">", b"a.*.x", b"a.7.*", _DEEP + b"b.*"):
            wanted = {each for each in held if overlaps(each.subject, pattern)}
            assert set(sublist.overlapping(pattern)) == wanted
    for each in held:
        assert sublist.remove(each)
    assert list(sublist) == [] and sublist._root.literals is None


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", ["literals", "wild", "plain", "group", "queues"])
def test_very_many_may_change_while_somebody_goes_through_them(sublist: Sublist, kind: str) -> None:
    stay = [subscribe(sublist, *very_many(kind, number)) for number in range(0, 60, 2)]
    go = [subscribe(sublist, *very_many(kind, number)) for number in range(1, 60, 2)]
    seen: list[Subscription] = []
    for each in sublist:
        seen.append(each)
        if go:
            sublist.remove(go.pop())
            subscribe(sublist, *very_many(kind, 60 + len(go)))
    assert set(stay) <= set(seen) and len(seen) == len(set(seen))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", ["literals", "wild", "plain", "group", "queues"])
def test_very_many_may_go_as_soon_as_they_are_seen(sublist: Sublist, kind: str) -> None:
    subs = [subscribe(sublist, *very_many(kind, number)) for number in range(60)]
    seen = [each for each in sublist if sublist.remove(each)]
    assert set(seen) == set(subs) and not sublist.count


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", ["plain", "group"])
def test_subscribers_stay_in_the_order_in_which_they_came(sublist: Sublist, kind: str) -> None:
    subs = [subscribe(sublist, *very_many(kind, number)) for number in range(30)]
    for each in subs[3::4]:
        sublist.remove(each)
    del subs[3::4]
    match = sublist.match(b"a")
    assert [match.plain] == [subs] if kind == "plain" else match.queues == [tuple(subs)]
