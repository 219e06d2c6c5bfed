"""Permissions: deny beats allow, queues narrow, wildcards are compared as sets."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.core.subject import is_literal, is_subset, matches, overlaps
from jetstream_server.node.auth.permissions import PermissionRules, SubjectRules


@pytest.mark.parametrize(
    ("allow", "deny", "subject", "permitted"),
    [
        (None, [], b"a", True),
        ([], [], b"a", False),
        (["a.>"], [], b"a.b", True),
        (["a.>"], [], b"b", False),
        (["a.>"], ["a.b"], b"a.b", False),
        (None, ["a.*"], b"a.b", False),
        (None, ["a.*"], b"a.b.c", True),
        (["a.*"], [], b"a.>", True),  # and then filtered
        (["a.*"], [], b"a.*.>", False),
        (["*"], [], b">", True),
        (None, ["*"], b">", False),
        (["a.>"], [], b"a.*", True),
    ],
)
def test_subjects(allow, deny, subject, permitted):
    rules = SubjectRules(allow, deny)
    assert rules.permits(subject) is permitted
    assert rules.permits(subject) is permitted  # the answer from the cache


@pytest.mark.parametrize(
    ("allow", "deny", "queues", "permitted"),
    [
        (["x q1"], [], "q1", "q1"),
        (["x q.*"], [], "q.a q.b r", "q.a q.b"),
        (["x *"], [], "q1 q.a", "q1"),
        (["x", "x v1"], [], "v1 v2", "plain v1"),
        (["x"], [], "v1", "plain v1"),
        (None, ["x q1"], "q1 q2", "plain q2"),
        (None, ["x", "x q1"], "q1 q2", ""),
        (None, ["x q.>"], "q.a.b q", "plain q"),
    ],
)
def test_queues(allow, deny, queues, permitted):
    rules = SubjectRules(allow, deny)
    given = {"plain": b""} | {name: name.encode() for name in queues.split()}
    assert [name for name, queue in given.items() if rules.permits(b"x", queue)] == (
        permitted.split()
    )


@pytest.mark.parametrize(
    ("allow", "deny", "pattern", "queue", "delivered"),
    [
        (None, ["a.secret"], b"a.*", b"", [b"a.open"]),
        (None, ["a.secret *"], b"a.*", b"q", [b"a.open"]),
        (None, ["a.secret *"], b"a.*", b"", None),
        (None, ["a.secret r"], b"a.*", b"q", None),
        (None, ["b"], b"a.*", b"", None),
        (None, ["a.secret"], b"a.open", b"", None),
        (["*", "a.open"], [], b">", b"", [b"a.open"]),
        (["a.*"], [], b"a.>", b"", None),
        (["a.>"], [], b"a.*", b"", None),
    ],
)
def test_what_reaches_further_is_filtered(allow, deny, pattern, queue, delivered):
    rules = SubjectRules(allow, deny)
    assert rules.permits(pattern, queue)
    subjects = [b"a.open", b"a.secret"]
    if delivered is None:
        assert all(rules.delivers(subject, queue) for subject in subjects[:1])
        assert rules.reaches_further(pattern, queue) is (pattern == b"a.>")
        return
    for _ in range(2):  # and from the cache
        assert rules.reaches_further(pattern, queue)
    assert [each for each in subjects if rules.delivers(each, queue)] == delivered


def test_open_means_nothing_is_restricted():
    assert PermissionRules(SubjectRules(), SubjectRules()).is_open
    assert not PermissionRules(SubjectRules([]), SubjectRules()).is_open


class Compared:
    """The same, one by one."""

    def __init__(self, allow: list[str] | None, deny: list[str]) -> None:
        self.allow = [(">", "")] if allow is None else [each.partition(" ")[::2] for each in allow]
        self.deny = [each.partition(" ")[::2] for each in deny]

    @staticmethod
    def is_in(queue: bytes, group: str) -> bool:
        name = group.encode()
        return queue == name or bool(queue and not is_literal(name) and is_subset(queue, name))

    def about(self, entries: list[tuple[str, str]], queue: bytes) -> list[bytes]:
        return [at.encode() for at, group in entries if not group or self.is_in(queue, group)]

    def permits(self, subject: bytes, queue: bytes) -> bool:
        groups = [group for at, group in self.allow if matches(at.encode(), subject)]
        named = [group for group in groups if group]
        if queue and named:
            is_allowed = any(self.is_in(queue, group) for group in named)
        else:
            is_allowed = len(named) < len(groups)
        denied = self.about(self.deny, queue)
        return is_allowed and not any(matches(each, subject) for each in denied)

    def reaches_further(self, pattern: bytes, queue: bytes) -> bool:
        return not is_literal(pattern) and (
            any(overlaps(pattern, each) for each in self.about(self.deny, queue))
            or not any(is_subset(pattern, each) for each in self.about(self.allow, queue))
        )

    def delivers(self, subject: bytes, queue: bytes) -> bool:
        denied, allowed = self.about(self.deny, queue), self.about(self.allow, queue)
        return not any(matches(each, subject) for each in denied) and any(
            matches(each, subject) for each in allowed
        )


@pytest.mark.parametrize("seed", range(60))
def test_many_entries_decide_as_they_do_one_by_one(seed: int) -> None:
    random = Random(seed)
    queues = ["q", "r", "q.a", "*", "q.*", ">", "q.>"]

    def subject() -> str:
        tokens = random.choices(["a", "b", "$JS", "a", "b", "*"], k=random.randint(1, 4))
        return ".".join([*tokens[:-1], ">"] if random.random() < 0.25 else tokens)

    def entries() -> list[str]:
        return [
            subject() + (f" {random.choice(queues)}" if random.random() < 0.3 else "")
            for _ in range(random.choice([0, 1, 3, 6, 30]))
        ]

    allow, deny = (None if random.random() < 0.3 else entries()), entries()
    rules, model = SubjectRules(allow, deny), Compared(allow, deny)
    for _ in range(150):
        asked, queue = subject().encode(), random.choice(["", "", *queues]).encode()
        assert rules.permits(asked, queue) is model.permits(asked, queue)
        assert rules.reaches_further(asked, queue) is model.reaches_further(asked, queue)
        assert rules.delivers(asked, queue) is model.delivers(asked, queue)


def test_a_subject_is_not_compared_with_many_entries_one_by_one() -> None:
    entries = [f"d.{number}.*.x.{number}" for number in range(2000)]
    entries += [f"e.{number}.* q" for number in range(2000)]
    rules = SubjectRules([*entries, "q.>"], entries)
    for number in range(10):
        rules.permits(b"q.%d.>" % number, b"q")
    looked_at = rules.looked_at
    for number in range(100):
        subject = b"q.x.%d" % number
        assert rules.permits(subject, b"q") and rules.delivers(subject, b"q")
        assert rules.reaches_further(b"d.%d.>" % number, b"q")
        assert not rules.reaches_further(b"q.x.%d.>" % number, b"q")
    assert 0 < rules.looked_at - looked_at < 100 * 60


def test_a_message_is_decided_on_once_for_all_who_listen_under_the_same_rules():
    rules = SubjectRules(deny=["a.*.no", "a.q g"])
    for _ in range(2):
        looked_at = rules.looked_at
        assert [rules.delivers(b"a.b.no") for _ in range(100)] == [False] * 100
        assert rules.looked_at - looked_at < 100
        assert rules.delivers(b"a.q") and not rules.delivers(b"a.q", b"g")
        assert rules.delivers(b"a.q") and rules.delivers(b"a.b.yes")
