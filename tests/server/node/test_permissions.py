"""Permissions: deny beats allow, queues narrow, wildcards are compared as sets."""

from __future__ import annotations

import pytest
from jetstream_server.node.permissions import Permissions, SubjectRules


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
        (["a.*"], [], b"a.>", False),
        (["a.>"], [], b"a.*", True),
    ],
)
def test_subjects(allow, deny, subject, permitted):
    rules = SubjectRules(allow, deny)
    assert rules.permits(subject) is permitted
    assert rules.permits(subject) is permitted  # the answer from the cache


def test_an_allowed_queue_excludes_plain_subscriptions_and_other_queues():
    rules = SubjectRules(["work q1"])
    assert rules.permits(b"work", b"q1")
    assert not rules.permits(b"work")
    assert not rules.permits(b"work", b"q2")


def test_a_denied_queue_denies_only_that_queue():
    rules = SubjectRules(None, ["x q1"])
    assert rules.permits(b"x") and rules.permits(b"x", b"q2")
    assert not rules.permits(b"x", b"q1")


def test_a_wildcard_over_a_denied_subject_is_filtered_later():
    rules = SubjectRules(None, ["a.secret"])
    assert rules.permits(b"a.*") and rules.denies_part_of(b"a.*")
    assert not rules.denies_part_of(b"b.*") and not rules.denies_part_of(b"a.open")


def test_open_means_nothing_is_restricted():
    assert Permissions(SubjectRules(), SubjectRules()).is_open
    assert not Permissions(SubjectRules([]), SubjectRules()).is_open
