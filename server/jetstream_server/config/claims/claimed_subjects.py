"""What is wrong with subjects that JWTs claim, in the words of the genuine server.

Its library takes a subject for one that the server then cannot use: with `>` before the end, or
with a tab. Those are refused here (tests/parity/deviations.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

_REFERENCE = re.compile(r"\$([+-]?[0-9]{1,18})")
_NAMED = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r"}
# Longer ones are refused before anything else is done with them.
SUBJECT_MAX = 65_536
_QUOTED_MAX = 16_384


def subject_problems(subject: str) -> Iterator[str]:
    """Yield everything that is wrong with a subject."""
    if not subject:
        yield "subject cannot be empty"
        return
    if len(subject) > SUBJECT_MAX:
        yield "subject is too long"
        return
    before = len(subject)
    if " " in subject:
        before = 0
        yield f"subject {quoted(subject)} cannot have spaces"
    if subject[0] == "." or subject[-1] == ".":
        before = 0
        yield f"subject {quoted(subject)} cannot start or end with a `.`"
    if ".." in subject:
        before = 0
        yield f"subject {quoted(subject)} cannot contain consecutive `.`"
    if before and _is_unusable(subject):
        yield f"subject {quoted(subject)} is not valid"


def permission_problems(
    subject: str, *, is_subscribed: bool, is_denied: bool = False
) -> Iterator[str]:
    """Yield what is wrong with a subject in permissions; a queue may stand behind what is
    subscribed to."""
    parts = subject.split(" ", 2)
    if len(parts) > 2:
        yield f"Permission Subject {quoted(subject)} contains too many spaces"
        return
    for part in parts:
        for each in subject_problems(part):
            # What cannot be used may be allowed, but what is to be denied has to be known.
            if is_denied or not each.endswith("is not valid"):
                yield each
    if len(parts) == 2 and not is_subscribed:
        yield f"Permission Subject {quoted(subject)} is not allowed to contain queue"


def renaming_problems(here: str, subject: str) -> Iterator[str]:
    """Yield why something cannot be known under another subject, which may refer to the wildcards
    of its own by `*` or by their numbers."""
    yield from subject_problems(here)
    if len(here) > SUBJECT_MAX or len(subject) > SUBJECT_MAX:
        return
    if " " in here:  # said twice
        yield f"subject {quoted(here)} cannot have spaces"
    target, source = here.split("."), subject.split(".")
    if (target[-1] == ">") != (source[-1] == ">"):
        yield "both, renaming subject and subject, need to end or not end in >"
    wildcards, references = source.count("*"), 0
    for token, times in Counter(target).items():
        number = _number(token)
        if number is not None and number > wildcards:
            text = f"Reference ${number} in {quoted(here)} reference * in {quoted(subject)}"
            yield from [f"{text} that do not exist"] * times
        elif number is not None or token == "*":
            references += times
    if references != wildcards:
        yield "subject does not contain enough * or reference wildcards $[0-9]"


def unreferred(subject: str) -> str:
    """Return a subject with wildcards in place of references to others."""
    if "$" not in subject or len(subject) > SUBJECT_MAX:
        return subject
    tokens = subject.split(".")
    references = {each for each in set(tokens) if _number(each) is not None}
    return ".".join(["*" if each in references else each for each in tokens])


def is_wild(subject: str) -> bool:
    """Tell whether a subject stands for several."""
    tokens = subject.split(".")
    return tokens[-1] == ">" or "*" in tokens


def quoted(text: str) -> str:
    """Return a text between quotes as Go writes it; the rest of a very long one is left out."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text[:_QUOTED_MAX])) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    if code < 0x80:
        return "\\" + _NAMED.get(code, f"x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _number(token: str) -> int | None:
    found = _REFERENCE.fullmatch(token) if token[:1] == "$" else None
    return int(found[1]) if found is not None else None


def _is_unusable(subject: str) -> bool:
    """Tell whether nobody could subscribe or publish to a subject whose dots are right."""
    has_space = any(each in subject for each in "\t\r\n\f")
    return has_space or subject.startswith(">.") or ".>." in subject
