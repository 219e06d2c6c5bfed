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
from itertools import chain

from jetstream_server.core.pattern_set import Effort, PatternSet
from jetstream_server.core.subject import is_literal, is_subset
from jetstream_server.node.auth.expected_replies import ResponseRules

_DECISIONS_MAX = 4096


class _PermissionEntries:
    """Patterns, each about everybody or about the subscriptions with some queues.

    Args:
        texts: as they are configured, `subject` or `subject queue`.
        effort: counts what answers take.
    """

    def __init__(self, texts: Sequence[str], effort: Effort) -> None:
        of_groups: dict[bytes, list[bytes]] = {}
        for pattern, group in map(_entry, texts):
            of_groups.setdefault(group, []).append(pattern)
        self.of_everybody = PatternSet(of_groups.pop(b"", []), effort)
        self.of_groups: PatternSet | None = None
        self._effort = effort
        self._of_group: dict[bytes, PatternSet] = {}
        self._wild_groups: list[bytes] = []
        if of_groups:
            self.of_groups = PatternSet(list(chain.from_iterable(of_groups.values())), effort)
            self._of_group = {name: PatternSet(each, effort) for name, each in of_groups.items()}
            self._wild_groups = [name for name in of_groups if not is_literal(name)]

    def of_queue(self, queue: bytes) -> list[PatternSet]:
        """Return what is about subscriptions with a queue, and not about everybody."""
        named = self._of_group
        if not queue or not named:
            return []
        self._effort.looked_at += len(self._wild_groups)
        groups = [each for each in self._wild_groups if each != queue and is_subset(queue, each)]
        if queue in named:
            groups.append(queue)
        return [named[each] for each in groups]

    def about(self, queue: bytes) -> list[PatternSet]:
        """Return what is about every subscription, or about one with this queue."""
        return [self.of_everybody, *self.of_queue(queue)]

    def match(self, subject: bytes, queue: bytes) -> bool:
        """Tell whether an entry that is about such a subscription matches a subject."""
        if self.of_everybody.matches(subject):
            return True
        return bool(queue) and any(each.matches(subject) for each in self.of_queue(queue))


class SubjectRules:
    """Allow and deny patterns of one direction; entries may be `subject queue`.

    Attributes:
        allowed, denied: as configured; `allowed` is None where no list says so, and all is.
    """

    def __init__(self, allow: Sequence[str] | None = None, deny: Sequence[str] = ()) -> None:
        self.allowed = allow
        self.denied = deny
        self._effort = effort = Effort()
        self._allow = None if allow is None else _PermissionEntries(allow, effort)
        self._deny = _PermissionEntries(deny, effort)
        self._decisions: dict[tuple[bytes, bytes], bool] = {}
        self._further: dict[tuple[bytes, bytes], bool] = {}
        # The last message that was decided on, and for which queue: very many clients may have the
        # same rules, and listen to it.
        self._last = b"", b"", False

    @property
    def is_open(self) -> bool:
        """Return whether nothing is restricted."""
        return self._allow is None and not self.denied

    @property
    def names_queues(self) -> bool:
        """Return whether an entry is about subscriptions with some queues only."""
        entries = (self._deny, self._allow)
        return any(each is not None and each.of_groups is not None for each in entries)

    @property
    def looked_at(self) -> int:
        """Return how many places in trees, and patterns of more than a few, decisions have taken so
        far."""
        return self._effort.looked_at

    def permits(self, subject: bytes, queue: bytes = b"") -> bool:
        """Tell whether a user may publish to a subject, or subscribe to a pattern with a queue."""
        key = (subject, queue)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= _DECISIONS_MAX:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(subject, queue)
        return decision

    def _decide(self, subject: bytes, queue: bytes) -> bool:
        return self._allows(subject, queue) and not self._deny.match(subject, queue)

    def _allows(self, subject: bytes, queue: bytes) -> bool:
        allow = self._allow
        if allow is None:
            return True
        if queue and allow.of_groups is not None and allow.of_groups.matches(subject):
            return any(each.matches(subject) for each in allow.of_queue(queue))
        return allow.of_everybody.matches(subject)

    def reaches_further(self, pattern: bytes, queue: bytes = b"") -> bool:
        """Return whether a permitted subscription reaches subjects that it must not be sent."""
        key = (pattern, queue)
        further = self._further.get(key)
        if further is None:
            if len(self._further) >= _DECISIONS_MAX:
                self._further.clear()
            further = self._further[key] = not is_literal(pattern) and (
                any(each.overlaps(pattern) for each in self._deny.about(queue))
                or not self._includes(pattern, queue)
            )
        return further

    def _includes(self, pattern: bytes, queue: bytes) -> bool:
        allow = self._allow
        return allow is None or any(each.includes(pattern) for each in allow.about(queue))

    def delivers(self, subject: bytes, queue: bytes = b"") -> bool:
        """Return whether a message may be sent to a permitted subscription."""
        last_subject, last_queue, delivers = self._last
        if subject == last_subject and queue == last_queue and subject:
            return delivers
        delivers = not self._deny.match(subject, queue) and (
            self._allow is None or self._allow.match(subject, queue)
        )
        self._last = subject, queue, delivers
        return delivers


def _entry(text: str) -> tuple[bytes, bytes]:
    subject, _, queue = text.strip().partition(" ")
    return subject.encode(), queue.strip().encode()


@dataclass(slots=True, eq=False)
class PermissionRules:
    """What a user may do in both directions.

    Attributes:
        publish, subscribe: the rules of each.
        responses: how answers may be published that `publish` does not allow; None for not at all.
    """

    publish: SubjectRules
    subscribe: SubjectRules
    responses: ResponseRules | None = None

    @property
    def is_open(self) -> bool:
        """Return whether nothing is restricted."""
        return self.publish.is_open and self.subscribe.is_open
