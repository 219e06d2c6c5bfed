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
