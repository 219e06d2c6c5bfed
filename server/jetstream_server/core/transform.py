"""Subject transforms: `orders.*` to `{{partition(3,1)}}.orders.$1`.

A transform is parsed once into a list of steps, one for each token of the destination, and then
applied to subjects. What counts as a function call, which mistakes are refused and with what text,
and what odd arguments do (`$0` is the first token of the subject) is taken from the behaviour of
nats-server 2.15.1; the vectors beside the tests were recorded from it.

Specification: docs/reference/streams.md#transforms-and-republishing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from jetstream_server.core.subject import (
    SUBJECT_BYTES_MAX,
    is_literal,
    is_well_formed,
    matches,
)

Step = Callable[[bytes, list[bytes], Random], bytes]
_Cut = Callable[[bytes, int], bytes]

# What may be asked for, as every message pays for each token again.
DESTINATION_BYTES_MAX = 4096
TOKENS_USED_MAX = 64

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_UINT32 = 2**32
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_ARGUMENT_SEPARATOR = re.compile(rb",\s*")
_SPACE = re.compile(rb"[ \t\r\n\f]")


def _call(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\{\{\s*" + name + rb"\s*\((.*)\)\s*\}\}")


# In the order in which a token is tried; where the case may vary is part of the behaviour.
_PARTITION = _call(rb"[pP]artition")
_WILDCARD = _call(rb"[wW]ildcard")
_SPLIT = _call(rb"[sS]plit")
_RANDOM = _call(rb"[rR]andom")
_CALLS: dict[str, re.Pattern[bytes]] = {
    "partition": _PARTITION,
    "wildcard": _WILDCARD,
    "splitFromLeft": _call(rb"[sS]plit[fF]rom[lL]eft"),
    "splitFromRight": _call(rb"[sS]plit[fF]rom[rR]ight"),
    "sliceFromLeft": _call(rb"[sS]lice[fF]rom[lL]eft"),
    "sliceFromRight": _call(rb"[sS]lice[fF]rom[rR]ight"),
    "split": _SPLIT,
    "right": _call(rb"[rR]ight"),
    "left": _call(rb"[lL]eft"),
    "random": _RANDOM,
}

_DESTINATION = "invalid mapping destination: "
_TRANSFORM = _DESTINATION + "invalid transform"
_UNKNOWN_FUNCTION = _DESTINATION + "unknown function"
_OUT_OF_RANGE = _DESTINATION + "wildcard index out of range"
_NOT_ENOUGH = _DESTINATION + "not enough arguments passed to the function"
_TOO_MANY = _DESTINATION + "too many arguments passed to the function"
_INVALID_ARGUMENT = _DESTINATION + "function argument is invalid or in the wrong format"


class TransformError(ValueError):
    """A transform is not possible; the text is the genuine server's, without what it is about."""


def _refusal(text: str, token: bytes) -> TransformError:
    return TransformError(f"{text} in {token.decode(errors='replace')}" if token else text)


class Transform:
    """A parsed transform.

    Attributes:
        source: the pattern of subjects it concerns.
        destination: as written.
        tokens_used: how many tokens of the source it uses.

    Raises:
        TransformError: the two do not make a transform.
    """

    def __init__(self, source: bytes, destination: bytes) -> None:
        self.source = source or b">"
        self.destination = destination
        _check_destination(destination)
        self._steps, self._has_tail, self.tokens_used = _parse(self.source, destination)
        # The tokens that the source's `>` stands for start here.
        self._tail_start = len(self.source.split(b".")) - 1

    def __repr__(self) -> str:
        return f"Transform({self.source!r}, {self.destination!r})"

    def apply(self, subject: bytes, random: Random) -> bytes | None:
        """Return the new subject, None when `subject` does not match the source.

        The result can be malformed (`split` of nothing but separators); the genuine server stores
        even that.
        """
        if not matches(self.source, subject):
            return None
        given = subject.split(b".")
        made = [step(subject, given, random) for step in self._steps]
        if self._has_tail:
            made += given[self._tail_start :]
        return b".".join(made)


def asked_transform(source: bytes, destination: bytes) -> Transform:
    """Return a transform that somebody asks for; those that are kept already may be larger.

    Raises:
        TransformError: the two do not make a transform, or one that is too large.
    """
    if len(destination) > DESTINATION_BYTES_MAX:
        raise TransformError(f"{_DESTINATION}longer than {DESTINATION_BYTES_MAX} bytes")
    if len(source) > SUBJECT_BYTES_MAX:
        raise TransformError("invalid subject")
    transform = Transform(source, destination)
    if transform.tokens_used > TOKENS_USED_MAX:
        raise TransformError(f"{_DESTINATION}uses more than {TOKENS_USED_MAX} tokens")
    return transform


def _check_destination(destination: bytes) -> None:
    """Refuse what is wrong with the destination alone."""
    after_tail = False
    for token in destination.split(b"."):
        if not token or after_tail:
            raise _refusal(_TRANSFORM, token)
        if _looks_like_call(token):
            if not any(pattern.search(token) for pattern in _CALLS.values()):
                raise _refusal(_UNKNOWN_FUNCTION, token)
        elif token == b">":
            after_tail = True
        elif _SPACE.search(token):
            raise TransformError(_TRANSFORM)


def _looks_like_call(token: bytes) -> bool:
    return len(token) > 4 and token.startswith(b"{{") and token.endswith(b"}}")


def _parse(source: bytes, destination: bytes) -> tuple[list[Step], bool, int]:
    source_tokens = source.split(b".")
    target_tokens = destination.split(b".")
    has_tail = source_tokens[-1] == b">"
    if (
        not is_well_formed(source)
        or b"*" in target_tokens
        or has_tail != (target_tokens[-1] == b">")
    ):
        raise TransformError("invalid subject")
    if has_tail:
        target_tokens.pop()
    # Wildcard number 1 is the first `*`. Numbers below 1 are not refused and mean the first token.
    stars = [index for index, token in enumerate(source_tokens) if token == b"*"]
    places = _Places(stars, literal=is_literal(source))
    steps: list[Step] = []
    literals: list[bytes] = []  # that stand together
    for token in target_tokens:
        step = _step(token, places)
        if step is None:
            literals.append(token)
            continue
        if literals:
            steps.append(_literal(b".".join(literals)))
            literals = []
        steps.append(step)
    if literals:
        steps.append(_literal(b".".join(literals)))
    return steps, has_tail, places.located


class _Places:
    """Where the wildcards of the source are.

    Attributes:
        located: how often one was looked up.
    """

    def __init__(self, stars: list[int], literal: bool) -> None:
        self._stars = stars
        self.literal = literal
        self.located = 0

    def locate(self, number: int, token: bytes) -> int:
        self.located += 1
        if self.literal:
            raise _refusal(_OUT_OF_RANGE, token)
        if number > len(self._stars):
            raise TransformError(f"{_refusal(_OUT_OF_RANGE, token)}: [{number}]")
        return self._stars[number - 1] if number > 0 else 0


def _step(token: bytes, places: _Places) -> Step | None:
    """Return what a token of the destination does, None if it stands for itself."""
    if token.startswith(b"$"):
        number = _integer(token[1:])
        return None if number is None else _wildcard(places.locate(number, token))
    if not _looks_like_call(token):
        return None
    for name, pattern in _CALLS.items():
        found = pattern.search(token)
        if found is not None:
            return _call_step(name, _ARGUMENT_SEPARATOR.split(found[1]), token, places)
    raise _refusal(_UNKNOWN_FUNCTION, token)


def _call_step(name: str, arguments: list[bytes], token: bytes, places: _Places) -> Step:
    if name == "partition":
        count, *numbers = [_argument(text, token) for text in arguments]
        _check_int32(count, token)
        if places.literal:
            numbers = []
        return _partition(count % _UINT32, [places.locate(n, token) for n in numbers])
    if name == "random":
        if len(arguments) > 1:
            raise _refusal(_NOT_ENOUGH, token)
        return _random(abs(_check_int32(_argument(arguments[0], token), token)))
    if name == "wildcard":
        if arguments == [b""]:
            raise _refusal(_NOT_ENOUGH, token)
        if len(arguments) > 1:
            raise _refusal(_TOO_MANY, token)
        return _wildcard(places.locate(_argument(arguments[0], token), token))
    if len(arguments) < 2:
        raise _refusal(_NOT_ENOUGH, token)
    if len(arguments) > 2:
        raise _refusal(_TOO_MANY, token)
    number = _argument(arguments[0], token)
    if name == "split":
        return _split(places.locate(number, token), arguments[1])
    size = _check_int32(_argument(arguments[1], token), token)
    return _cut_step(places.locate(number, token), _CUTS[name], size)


def _integer(text: bytes) -> int | None:
    if _INTEGER.fullmatch(text) is None or len(text) > 20:
        return None
    number = int(text)
    return number if -_INT64_MAX - 1 <= number <= _INT64_MAX else None


def _argument(text: bytes, token: bytes) -> int:
    number = _integer(text.strip())
    if number is None:
        raise _refusal(_INVALID_ARGUMENT, token)
    return number


def _check_int32(number: int, token: bytes) -> int:
    if number > _INT32_MAX:
        raise _refusal(_INVALID_ARGUMENT, token)
    return number


def _literal(token: bytes) -> Step:
    return lambda subject, given, random: token


def _wildcard(place: int) -> Step:
    return lambda subject, given, random: given[place]


def _random(count: int) -> Step:
    return lambda subject, given, random: b"%d" % (random.randrange(count) if count else 0)


def _partition(count: int, places: list[int]) -> Step:
    if count == 0:
        return _literal(b"0")

    def step(subject: bytes, given: list[bytes], random: Random) -> bytes:
        key = b"".join([given[place] for place in places]) if places else subject
        return b"%d" % (fnv1a_32(key) % count)

    return step


def fnv1a_32(text: bytes) -> int:
    """Return the FNV-1a hash of 32 bits, by which partitions are chosen."""
    number = 0x811C9DC5
    for byte in text:
        number = (number ^ byte) * 0x01000193 % _UINT32
    return number


def _split(place: int, separator: bytes) -> Step:
    def step(subject: bytes, given: list[bytes], random: Random) -> bytes:
        token = given[place]
        if separator:
            return b".".join([part for part in token.split(separator) if part])
        characters = token.decode(errors="surrogateescape")
        return ".".join(characters).encode(errors="surrogateescape")

    return step


def _cut_step(place: int, cut: _Cut, size: int) -> Step:
    def step(subject: bytes, given: list[bytes], random: Random) -> bytes:
        token = given[place]
        # Sizes that would cut nothing off leave the token alone.
        return cut(token, size) if 0 < size < len(token) else token

    return step


def _slice_from_left(token: bytes, size: int) -> bytes:
    return b".".join([token[at : at + size] for at in range(0, len(token), size)])


def _slice_from_right(token: bytes, size: int) -> bytes:
    rest = len(token) % size
    parts = [token[at : at + size] for at in range(rest, len(token), size)]
    return b".".join([token[:rest], *parts] if rest else parts)


_CUTS: dict[str, _Cut] = {
    "splitFromLeft": lambda token, size: token[:size] + b"." + token[size:],
    "splitFromRight": lambda token, size: token[:-size] + b"." + token[-size:],
    "sliceFromLeft": _slice_from_left,
    "sliceFromRight": _slice_from_right,
    "left": lambda token, size: token[:size],
    "right": lambda token, size: token[-size:],
}
