"""How a mirror or a source names what it copies: the first of its transforms that fits.

A transform without destination only selects. Subjects repeat, so what became of one is remembered,
unless a transform may give another answer each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from random import Random

from jetstream_server.core.subject import matches
from jetstream_server.core.transform import Transform
from jetstream_server.jetstream.configs.stream_config import SubjectTransform

_REMEMBERED_MAX = 65536
_REMEMBERED_BYTES_MAX = 16 * 1024 * 1024  # as who publishes chooses how long subjects are


class Renaming:
    """The subject transforms of one mirror or source.

    Args:
        seed: of what is random in them.
    """

    def __init__(self, transforms: Sequence[SubjectTransform], seed: str) -> None:
        self._seed = seed
        self._rules = [
            (
                rule.src.encode() or b">",
                Transform(rule.src.encode(), rule.dest.encode()) if rule.dest else None,
            )
            for rule in transforms
        ]
        self._is_constant = not any("random" in rule.dest.lower() for rule in transforms)
        self._known: dict[bytes, bytes] = {}
        self._known_bytes = 0

    def __bool__(self) -> bool:
        """Return whether anything may be renamed."""
        return any(transform is not None for _, transform in self._rules)

    @cached_property
    def _random(self) -> Random:
        # It takes 10 microseconds to make and 2.5 KB to keep, and there may be 1,000 sources.
        return Random(self._seed)

    def apply(self, subject: bytes) -> bytes:
        """Return the subject under which a message is stored."""
        known = self._known.get(subject)
        if known is not None:
            return known
        renamed = self._find(subject)
        if self._is_constant:
            if len(self._known) >= _REMEMBERED_MAX or self._known_bytes >= _REMEMBERED_BYTES_MAX:
                self._known.clear()
                self._known_bytes = 0
            self._known[subject] = renamed
            self._known_bytes += len(subject) + len(renamed)
        return renamed

    def _find(self, subject: bytes) -> bytes:
        for pattern, transform in self._rules:
            if matches(pattern, subject):
                if transform is None:
                    return subject
                return transform.apply(subject, self._random) or subject
        return subject
