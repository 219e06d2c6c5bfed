"""Which of the waiting pull requests may be served: the policies of priority groups.

- `overflow`: a request may ask to be served only when the consumer has fallen behind;
- `prioritized`: lower numbers first (`pull.py` keeps the queue in that order);
- `pinned_client`: one client gets everything until it stops asking for `priority_timeout`.

Only the first group's pin exists, as in the genuine server
(docs/reference/consumers.md#priority-groups).
"""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.consumers.pull_request import PullRequest

_ANY_COUNT = 1 << 63  # more than anybody has
_PRIORITY_MAX = 9
LAST_PRIORITY = _PRIORITY_MAX + 1


@dataclass(slots=True)
class Pin:
    """The chosen client of a group.

    Attributes:
        id: 22 characters, sent along with each message; empty when nobody is chosen.
        group: the group it was chosen for.
        pinned_at: when, nanoseconds since the epoch.
        deadline: when it is given up unless it asks again.
    """

    id: str = ""
    group: str = ""
    pinned_at: int = 0
    deadline: int = 0

    def clear(self) -> None:
        """Choose nobody."""
        self.id = ""
        self.pinned_at = self.deadline = 0


@dataclass(slots=True)
class PassedOver:
    """How many of the first that wait may not be served, and how long that holds. With each message
    very many would have to be looked at again else, which takes longer than everything else.

    Attributes:
        count: of these requests, or less; those behind them have to be looked at.
        policy: of the consumer.
        pin_id: who is pinned, and is not among them.
        least_pending: of messages, with which the first of them may be served.
        least_ack_pending: the same of those that are not acknowledged.
    """

    count: int = 0
    policy: str = ""
    pin_id: str = ""
    least_pending: int = _ANY_COUNT
    least_ack_pending: int = _ANY_COUNT

    def follow(self, policy: str, pin_id: str, num_pending: int, num_ack_pending: int) -> None:
        """Begin anew if it does not hold any more."""
        if policy == self.policy and pin_id == self.pin_id:
            if policy == "pinned_client":
                return
            if num_pending < self.least_pending and num_ack_pending < self.least_ack_pending:
                return
        self.count, self.policy, self.pin_id = 0, policy, pin_id
        self.least_pending = self.least_ack_pending = _ANY_COUNT

    def include(self, request: PullRequest) -> bool:
        """Count the next one that waits, if it may not be served as long as this holds; False if
        it may have to be."""
        if self.policy == "pinned_client":
            is_one = bool(self.pin_id) and not request.pin
        else:
            is_one = self.policy == "overflow" and request.has_minimums
        if is_one:
            self.count += 1
            if request.min_pending > 0:
                self.least_pending = min(self.least_pending, request.min_pending)
            if request.min_ack_pending > 0:
                self.least_ack_pending = min(self.least_ack_pending, request.min_ack_pending)
        return is_one

    def gone(self, count: int) -> None:
        """Note that some do not wait any more, or elsewhere; they may have been among these."""
        self.count = max(self.count - count, 0)


def refusal(config: ConsumerConfig, request: PullRequest) -> bytes:
    """Return the status line for a request that the policy does not allow, empty when it does."""
    policy = config.priority_policy
    if request.has_minimums and policy != "overflow":
        return b"400 Bad Request - Not a Overflow Priority consumer"
    if request.pin and policy != "pinned_client":
        return b"400 Bad Request - Not a Pinned Client Priority consumer"
    if request.is_text:  # it cannot name a group, and is for none
        return b""
    if not 0 <= request.priority <= _PRIORITY_MAX:
        return b"400 Bad Request - Priority must be between 0 and 9"
    if policy:
        if not request.group:
            return b"400 Bad Request - Priority Group missing"
        if request.group not in config.priority_groups:
            return b"400 Bad Request - Invalid Priority Group"
    return b""


def is_overflowing(request: PullRequest, num_pending: int, num_ack_pending: int) -> bool:
    """Tell whether a request's minimums, if it has any, are reached."""
    if not request.has_minimums:
        return True
    return (0 < request.min_pending <= num_pending) or (
        0 < request.min_ack_pending <= num_ack_pending
    )
