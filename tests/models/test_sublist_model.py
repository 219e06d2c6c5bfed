"""`Sublist` against a plain list searched with `core/subject.py`, with trees of any depth."""

from collections import Counter
from itertools import product
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from jetstream_server.core import sublist as sublist_module
from jetstream_server.core.subject import is_valid_subject, matches, overlaps
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Subscription

NOBODY: Any = None
TOKEN = st.sampled_from([b"a", b"b", b"*", b">"])
PATTERN = st.lists(TOKEN, min_size=1, max_size=5).map(b".".join).filter(is_valid_subject)
SUBJECT = st.lists(
    st.sampled_from([b"a", b"b", b"z", b"*", b">", b""]), min_size=1, max_size=4
).map(b".".join)
QUEUE = st.sampled_from([b"", b"", b"q", b"r"])
# Every token that tells literal children apart, and one that none has.
EXTENSIONS = (b"a", b"b", b"z")


class Watching:
    """Notes who came and has not gone."""

    def __init__(self, pattern: bytes, there: list[Subscription]) -> None:
        self.pattern, self.there = pattern, there
        self.came: list[Subscription] = []

    def inserted(self, sub: Subscription) -> None:
        self.came.append(sub)

    def removed(self, sub: Subscription) -> None:
        if sub not in self.there:
            self.came.remove(sub)


class SublistMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.sublist = Sublist()
        self.subs: list[Subscription] = []
        self.watchers: list[Watching] = []
        self.depth = self.depth_before = sublist_module.TREE_TOKENS_MAX

    @initialize(depth=st.sampled_from([1, 2, 3, 16]))
    def begin(self, depth: int) -> None:
        self.depth = sublist_module.TREE_TOKENS_MAX = depth

    def teardown(self) -> None:
        sublist_module.TREE_TOKENS_MAX = self.depth_before

    def reached(self, subject: bytes) -> list[Subscription]:
        return [sub for sub in self.subs if matches(sub.subject, subject)]

    @rule(subject=PATTERN, queue=QUEUE)
    def insert(self, subject: bytes, queue: bytes) -> None:
        sub = Subscription(subject, NOBODY, queue=queue)
        before = self.sublist.generation
        self.sublist.insert(sub)
        self.subs.append(sub)
        assert self.sublist.generation > before

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.subs:
            sub = self.subs.pop(data.draw(st.integers(0, len(self.subs) - 1)))
            assert self.sublist.remove(sub)
            assert sub.closed
            assert not self.sublist.remove(sub)

    @rule(subject=SUBJECT)
    def match(self, subject: bytes) -> None:
        reached = self.reached(subject)
        match = self.sublist.match(subject)
        plain = [sub for sub in reached if not sub.queue]
        groups: dict[bytes, Counter[int]] = {}
        for sub in reached:
            if sub.queue:
                groups.setdefault(sub.queue, Counter())[id(sub)] += 1
        assert Counter(map(id, match.plain)) == Counter(map(id, plain))
        assert {g[0].queue: Counter(map(id, g)) for g in match.queues} == groups
        assert match.empty == (not reached)
        only = plain[0] if len(reached) == 1 and plain else None
        assert self.sublist.match_one(subject) is only
        assert self.sublist.has_interest(subject) == bool(reached)

    @rule(prefix=SUBJECT)
    def match_prefix(self, prefix: bytes) -> None:
        answers = [self.reached(prefix + b"." + token) for token in EXTENSIONS]
        first = answers[0]
        same = all(answer == first for answer in answers)
        expected = first[0] if same and len(first) == 1 and not first[0].queue else None
        if prefix.count(b".") + 1 >= self.depth:
            expected = None  # nothing is said of what is deeper than the tree
        assert self.sublist.match_prefix(prefix) is expected

    @rule(pattern=PATTERN)
    def overlapping(self, pattern: bytes) -> None:
        found = Counter(map(id, self.sublist.overlapping(pattern)))
        assert found == Counter(id(sub) for sub in self.subs if overlaps(sub.subject, pattern))

    @rule(pattern=PATTERN)
    def watch(self, pattern: bytes) -> None:
        watcher = Watching(pattern, self.subs[:])
        self.watchers.append(watcher)
        self.sublist.watch(pattern, watcher)

    @rule(data=st.data())
    def unwatch(self, data: st.DataObject) -> None:
        if self.watchers:
            at = data.draw(st.integers(0, len(self.watchers) - 1))
            self.sublist.unwatch(self.watchers.pop(at))

    @invariant()
    def watchers_know_what_concerns_them(self) -> None:
        for watcher in self.watchers:
            new = [sub for sub in self.subs if sub not in watcher.there]
            assert watcher.came == [sub for sub in new if overlaps(sub.subject, watcher.pattern)]

    @rule(prefix=SUBJECT, tokens=st.integers(1, 2))
    def match_below(self, prefix: bytes, tokens: int) -> None:
        match = self.sublist.match_below(prefix, tokens)
        if prefix.count(b".") + 1 + tokens > self.depth or b"" in prefix.split(b"."):
            assert match is None
        elif match is not None:
            for extension in product(EXTENSIONS, repeat=tokens):
                reached = self.reached(b".".join((prefix, *extension)))
                plain = Counter(id(sub) for sub in reached if not sub.queue)
                assert Counter(map(id, match.plain)) == plain
                assert sum(map(len, match.queues)) + len(match.plain) == len(reached)

    @invariant()
    def holds_the_same(self) -> None:
        assert self.sublist.count == len(self.subs)
        assert Counter(map(id, self.sublist)) == Counter(map(id, self.subs))


SublistMachine.TestCase.settings = settings(stateful_step_count=40, deadline=None)
TestSublistModel = SublistMachine.TestCase
