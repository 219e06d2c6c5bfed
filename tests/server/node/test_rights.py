"""What server, account and user allow one client together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from jetstream_server.config.options import ServerOptions
from jetstream_server.node.accounts.account import ClientLimits
from jetstream_server.node.auth.auth import User
from jetstream_server.node.auth.expected_replies import ResponseRules
from jetstream_server.node.auth.permissions import PermissionRules, SubjectRules
from jetstream_server.node.rights import Rights
from jetstream_server.protocol import errors as faults

OPTIONS = ServerOptions()


def rights(user: User | None = None, limits: ClientLimits | None = None, **options: int) -> Rights:
    return Rights(user, limits or ClientLimits(), replace(OPTIONS, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("server", "account", "user", "lowest"),
    [(0, -1, -1, -1), (5, -1, -1, 5), (5, 3, -1, 3), (5, 3, 0, 0), (0, 7, 9, 7)],
)
def test_the_lowest_limit_of_subscriptions_counts(
    server: int, account: int, user: int, lowest: int
) -> None:
    made = rights(
        User(subscriptions_max=user),
        ClientLimits(subscriptions_max=account),
        max_subscriptions=server,
    )
    assert made.subscriptions_max == lowest


def test_the_lowest_limit_of_payloads_counts() -> None:
    assert rights(max_payload=100).payload_bytes_max == 100
    assert rights(limits=ClientLimits(payload_bytes_max=0)).payload_bytes_max == 0
    assert rights(User(payload_bytes_max=7), max_payload=100).payload_bytes_max == 7


def test_permissions_that_restrict_nothing_are_none() -> None:
    assert (
        rights(User(permissions=PermissionRules(SubjectRules(), SubjectRules()))).permissions
        is None
    )
    some = PermissionRules(SubjectRules(), SubjectRules(["a"]))
    assert rights(User(permissions=some)).permissions is some


def test_nobody_may_what_is_not_restricted() -> None:
    made = rights()
    assert made.use_to_publish(b"a", 0) and made.may_subscribe(b">", b"q")
    assert not made.use_to_publish(b"$NRG.x", 0)  # which only servers send to


def test_an_answer_may_be_published_as_often_as_is_said() -> None:
    permissions = PermissionRules(SubjectRules(["a"]), SubjectRules(), ResponseRules(2, 100))
    made = rights(User(permissions=permissions))
    assert made.expected is not None and not made.use_to_publish(b"_INBOX.x", 0)
    made.expected.expect(b"MSG s 1 _INBOX.x 0\r\n\r\n", 0)
    assert [made.use_to_publish(b"_INBOX.x", 5) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("user_until", "account_until", "at", "fault"),
    [
        (0, 0, 10**30, None),
        (9, 0, 8, None),
        (9, 0, 9, faults.USER_EXPIRED),
        (0, 9, 8, None),
        (0, 9, 9, faults.ACCOUNT_EXPIRED),
        (9, 9, 9, faults.USER_EXPIRED),
    ],
)
def test_when_they_end(user_until: int, account_until: int, at: int, fault: object) -> None:
    made = rights(User(expires_at=user_until, account_expires_at=account_until))
    assert made.expired(at) is fault
    assert made.ends == [each for each in (user_until, account_until) if each]
