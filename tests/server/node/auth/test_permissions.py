"""Permissions: deny beats allow, queues narrow, wildcards are compared as sets."""

from __future__ import annotations

import pytest
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
