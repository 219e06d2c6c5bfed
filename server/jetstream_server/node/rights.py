"""What a client may do: as the server, its account and its user say together."""

from __future__ import annotations

from jetstream_server.config.options import ServerOptions
from jetstream_server.node import reserved
from jetstream_server.node.accounts.account import ClientLimits
from jetstream_server.node.auth.auth import User
from jetstream_server.node.auth.expected_replies import ExpectedReplies
from jetstream_server.node.auth.permissions import PermissionRules
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault

NOBODY = User()


class Rights:
    """The rights of one client, from when they are given until they are replaced.

    Args:
        user: who it is, None for nobody yet.
        limits: what its account allows.
        options: what the operator said.

    Attributes:
        permissions: None where nothing is restricted.
        expected: answers that it may publish all the same; None if it is not restricted that way.
        payload_bytes_max: of one message, -1 for no limit.
        subscriptions_max: at a time, -1 for no limit.
    """

    __slots__ = ("_user", "expected", "payload_bytes_max", "permissions", "subscriptions_max")

    def __init__(self, user: User | None, limits: ClientLimits, options: ServerOptions) -> None:
        self._user = user = user or NOBODY
        permissions = user.permissions
        self.permissions: PermissionRules | None = (
            None if permissions is None or permissions.is_open else permissions
        )
        responses = permissions.responses if permissions is not None else None
        self.expected = ExpectedReplies(responses) if responses is not None else None
        self.payload_bytes_max = _lowest(
            options.max_payload, limits.payload_bytes_max, user.payload_bytes_max
        )
        # The server's limit is off at 0, those of accounts and users are off below 0.
        self.subscriptions_max = _lowest(
            options.max_subscriptions or -1,
            limits.subscriptions_max,
            user.subscriptions_max,
        )

    @property
    def ends(self) -> list[int]:
        """Return when user and account expire, if they do."""
        return [each for each in (self._user.expires_at, self._user.account_expires_at) if each]

    def expired(self, now: int) -> Fault | None:
        """Return why these rights have ended, None while they have not."""
        if 0 < self._user.expires_at <= now:
            return faults.USER_EXPIRED
        if 0 < self._user.account_expires_at <= now:
            return faults.ACCOUNT_EXPIRED
        return None

    def use_to_publish(self, subject: bytes, now: int) -> bool:
        """Tell whether something may be published; where only a number of answers may, count it."""
        rules = self.permissions
        denied = rules is not None and not rules.publish.permits(subject)
        if denied and self.expected is not None:
            denied = not self.expected.take(subject, now)
        return not denied and not reserved.is_reserved(subject, reserved.SUBJECTS)

    @property
    def looked_at(self) -> int:
        """Return how much decisions about what may be published and subscribed to have taken so
        far, as `SubjectRules` counts it."""
        rules = self.permissions
        return 0 if rules is None else rules.publish.looked_at + rules.subscribe.looked_at

    def may_subscribe(self, subject: bytes, queue: bytes) -> bool:
        """Tell whether a subscription is permitted."""
        return self.permissions is None or self.permissions.subscribe.permits(subject, queue)

    def reaches_further(self, subject: bytes, queue: bytes) -> bool:
        """Tell whether a permitted subscription reaches what it must not be sent."""
        rules = self.permissions
        return rules is not None and rules.subscribe.reaches_further(subject, queue)


def _lowest(*limits: int) -> int:
    """Return the lowest of several limits, -1 if none of them limits anything."""
    return min((each for each in limits if each >= 0), default=-1)
