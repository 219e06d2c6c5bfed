"""Which subjects a user may publish to and subscribe to.

Deny beats allow; without an allow list everything is allowed. A subscription that
overlaps a denied subject without being inside it is accepted, and what is denied is filtered at
delivery (jetstream.md 1.11).
"""

from __future__ import annotations

from collections.abc import Sequence

from jetstream_server.core.subject import is_literal, is_subset, matches, overlaps
from jetstream_server.node.expected_replies import ResponseRules

_DECISIONS_MAX = 4096


class SubjectRules:
    """Allow and deny patterns of one direction; entries may be `subject queue`.

    Attributes:
        allowed, denied: as configured.
    """

    def __init__(self, allow: Sequence[str] | None = None, deny: Sequence[str] = ()) -> None:
        self.allowed = allow
        self.denied = deny
        self._allow = None if allow is None else [_entry(text) for text in allow]
        self._deny = [_entry(text) for text in deny]
        self._decisions: dict[tuple[bytes, bytes], bool] = {}

    @property
    def is_open(self) -> bool:
        """Return whether nothing is restricted."""
        return self._allow is None and not self._deny

    def permits(self, subject: bytes, queue: bytes = b"") -> bool:
        """Decide about a subject or a subscription pattern."""
        key = (subject, queue)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= _DECISIONS_MAX:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(subject, queue)
        return decision

    def _decide(self, subject: bytes, queue: bytes) -> bool:
        if any(
            is_subset(subject, pattern) and (not group or matches(group, queue))
            for pattern, group in self._deny
        ):
            return False
        if self._allow is None:
            return True
        return any(
            is_subset(subject, pattern) and (not group or (bool(queue) and matches(group, queue)))
            for pattern, group in self._allow
        )

    def denies_part_of(self, pattern: bytes) -> bool:
        """Return whether a permitted wildcard subscription reaches some denied subject."""
        return not is_literal(pattern) and any(
            not group and overlaps(pattern, denied) for denied, group in self._deny
        )


def _entry(text: str) -> tuple[bytes, bytes]:
    subject, _, queue = text.strip().partition(" ")
    return subject.encode(), queue.strip().encode()


class Permissions:
    """Both directions, and answers that may be published although `publish` does not allow it."""

    def __init__(
        self,
        publish: SubjectRules,
        subscribe: SubjectRules,
        responses: ResponseRules | None = None,
    ) -> None:
        self.publish = publish
        self.subscribe = subscribe
        self.responses = responses

    @property
    def is_open(self) -> bool:
        """Return whether nothing is restricted."""
        return self.publish.is_open and self.subscribe.is_open
