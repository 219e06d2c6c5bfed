"""Which subjects a user may publish to and subscribe to.

Deny beats allow; without an allow list everything is allowed. An entry may name a queue group, and
is then about subscriptions with that queue only; where such an entry allows a subject, other
entries that allow it do not apply to subscriptions with a queue. What a subscription asks for is
compared token by token as if it were a subject, so `*` allows, or denies, a subscription to `>`.
All this is the genuine server's, as random rules show (`tests/parity/test_permission_rules.py`,
docs/reference/accounts.md#permissions).

So a subscription may reach more than it should. What is denied is filtered at delivery, and so is
what no entry allows; the genuine server delivers the latter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jetstream_server.core.subject import is_literal, is_subset, matches, overlaps
from jetstream_server.node.auth.expected_replies import ResponseRules

_DECISIONS_MAX = 4096
_EVERYTHING = b">"


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
        self._further: dict[tuple[bytes, bytes], bool] = {}

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
        return self._allows(subject, queue) and not any(
            matches(denied, subject) for denied in _about(self._deny, queue)
        )

    def _allows(self, subject: bytes, queue: bytes) -> bool:
        if self._allow is None:
            return True
        groups = [group for pattern, group in self._allow if matches(pattern, subject)]
        named = [group for group in groups if group]
        if queue and named:
            return any(_is_in_group(queue, group) for group in named)
        return len(named) < len(groups)

    def reaches_further(self, pattern: bytes, queue: bytes = b"") -> bool:
        """Return whether a permitted subscription reaches subjects that it must not be sent."""
        key = (pattern, queue)
        further = self._further.get(key)
        if further is None:
            if len(self._further) >= _DECISIONS_MAX:
                self._further.clear()
            further = self._further[key] = not is_literal(pattern) and (
                any(overlaps(pattern, denied) for denied in _about(self._deny, queue))
                or not any(is_subset(pattern, allowed) for allowed in self._open_to(queue))
            )
        return further

    def delivers(self, subject: bytes, queue: bytes = b"") -> bool:
        """Return whether a message may be sent to a permitted subscription."""
        return not any(matches(denied, subject) for denied in _about(self._deny, queue)) and any(
            matches(allowed, subject) for allowed in self._open_to(queue)
        )

    def _open_to(self, queue: bytes) -> list[bytes]:
        return [_EVERYTHING] if self._allow is None else _about(self._allow, queue)


def _about(entries: Sequence[tuple[bytes, bytes]], queue: bytes) -> list[bytes]:
    """Return the patterns that are about every subscription, or about one with this queue."""
    return [pattern for pattern, group in entries if not group or _is_in_group(queue, group)]


def _is_in_group(queue: bytes, group: bytes) -> bool:
    return queue == group or (bool(queue) and not is_literal(group) and is_subset(queue, group))


def _entry(text: str) -> tuple[bytes, bytes]:
    subject, _, queue = text.strip().partition(" ")
    return subject.encode(), queue.strip().encode()


@dataclass(slots=True, eq=False)
class PermissionRules:
    """Both directions, and answers that may be published although `publish` does not allow it."""

    publish: SubjectRules
    subscribe: SubjectRules
    responses: ResponseRules | None = None

    @property
    def is_open(self) -> bool:
        """Return whether nothing is restricted."""
        return self.publish.is_open and self.subscribe.is_open
