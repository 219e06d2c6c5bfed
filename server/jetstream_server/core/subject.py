"""Subjects and patterns as bytes: what is well formed, and what matches what.

A *pattern* may hold the wildcards `*` (one token) and `>` (one token or more, only as the last);
both count only as a whole token, so `foo*` is a literal. A *literal* is what a message is published
to. There, wildcards mean nothing: the server does not refuse `PUB a.*`, it routes it as three
characters. A subject with an empty token is malformed and matches nothing, not even `>`.

This is about two subjects at a time; many patterns at once are `core/sublist.py`. Specification:
docs/reference/protocol.md#subjects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

# Clients can say no subject that is longer, unless `max_control_line` is raised to more than this.
SUBJECT_BYTES_MAX = 64 * 1024

_TOKENS_SEARCHED = 32  # of a pattern, in lines of others

_TOKEN = rb"[^. \t\r\n\f]+"
_VALID = re.compile(rb"(?:(?!>\.)" + _TOKEN + rb"\.)*" + _TOKEN)
_BLANK = re.compile(rb"[ \t\r\n\f]")
_WILDCARD_TOKEN = re.compile(rb"(?:\A|\.)[*>](?:\.|\Z)")


def tokens(subject: bytes) -> list[bytes]:
    """Split at the dots; a malformed subject has empty tokens."""
    return subject.split(b".")


def encoded(subjects: Sequence[str]) -> list[bytes]:
    """Return subjects as they travel on the wire, many of them quickly."""
    together = "\n".join(subjects).encode().split(b"\n")
    return together if len(together) == len(subjects) else [each.encode() for each in subjects]


def is_valid_subject(subject: bytes) -> bool:
    """Tell whether this is a well-formed subject or pattern, as SUB accepts it."""
    return len(subject) <= SUBJECT_BYTES_MAX and is_well_formed(subject)


def is_well_formed(subject: bytes) -> bool:
    """Tell the same of one that may be longer than anybody may ask for now."""
    return _VALID.fullmatch(subject) is not None


def are_valid_subjects(subjects: list[bytes]) -> bool:
    """Tell at a glance that all of these are well formed. False says only that each has to be
    looked at."""
    together = b"".join(subjects)
    if _BLANK.search(together):
        return False
    if len(together) > SUBJECT_BYTES_MAX and max(map(len, subjects)) > SUBJECT_BYTES_MAX:
        return False
    together = b" %b " % b" ".join(subjects)
    return not any(broken in together for broken in (b"  ", b" .", b". ", b"..", b">."))


def is_literal(subject: bytes) -> bool:
    """Tell whether no token is a wildcard; says nothing about empty tokens."""
    if b"*" not in subject and b">" not in subject:
        return True
    return _WILDCARD_TOKEN.search(subject) is None


def is_valid_literal(subject: bytes) -> bool:
    """Tell whether this is well formed and free of wildcards."""
    return is_valid_subject(subject) and is_literal(subject)


def matches(pattern: bytes, subject: bytes) -> bool:
    """Tell whether a message published to `subject` reaches a subscription to `pattern`."""
    wanted, given = pattern.split(b"."), subject.split(b".")
    if b"" in given:
        return False
    for index, token in enumerate(wanted):
        if index == len(given):
            return False
        if token == b">":
            return True
        if token != b"*" and token != given[index]:
            return False
    return len(wanted) == len(given)


def overlaps(a: bytes, b: bytes) -> bool:
    """Tell whether some subject matches both patterns."""
    return _overlap(a.split(b"."), b.split(b"."))


def _overlap(left: list[bytes], right: list[bytes]) -> bool:
    for x, y in zip(left, right, strict=False):
        if x == b">" or y == b">":
            return True
        if x != y and x != b"*" and y != b"*":
            return False
    return len(left) == len(right)


def overlap_search(pattern: bytes) -> Callable[[str], bool]:
    """Return what tells whether one of some well-formed patterns, a line each, overlaps this
    one."""
    given, search = pattern.split(b"."), line_search(pattern)

    def overlaps_any(lines: str) -> bool:
        found = search.finditer(lines)
        return any(_overlap(given, line.group().encode().split(b".")) for line in found)

    return overlaps_any


def line_search(pattern: bytes) -> re.Pattern[str]:
    """Return what finds, in lines of one pattern each, one that overlaps this one, much faster than
    `overlaps` does. Of a pattern of very many tokens only the first ones are compared."""
    tokens_given = pattern.decode(errors="surrogateescape").split(".")
    search = "" if len(tokens_given) <= _TOKENS_SEARCHED else r"\.[^\n]*"
    for token in reversed(tokens_given[:_TOKENS_SEARCHED]):
        if token == ">":
            search = r"\.[^\n]+"
            continue
        here = r"[^.\n]+" if token == "*" else rf"(?:{re.escape(token)}|\*)"
        search = rf"\.(?:>|{here}{search})"
    return re.compile(rf"^{search.removeprefix(chr(92) + '.')}$", re.MULTILINE)


def is_subset(a: bytes, b: bytes) -> bool:
    """Tell whether every subject that matches pattern `a` matches pattern `b` too."""
    inner, outer = a.split(b"."), b.split(b".")
    for x, y in zip(inner, outer, strict=False):
        if y == b">":
            return True
        if x == b">" or (x != y and y != b"*"):
            return False
    return len(inner) == len(outer)
