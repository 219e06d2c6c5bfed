"""The `mappings` of an account: subjects that are replaced when a client publishes.

A subject goes to one of its destinations by their weights, as parts of a hundred. What is left of
the hundred stays with the subject itself, unless that is a destination too: then it is lost, which
is a way to try out a bad network. Permissions apply to the subject before the mapping.
Specification: docs/reference/configuration.md#subject-mappings; the genuine server chooses among
several sources at random; here a literal one wins, then the first in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from random import Random
from typing import cast

from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import SubjectMapping
from jetstream_server.core.subject import is_literal
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Receiver, Subscription
from jetstream_server.core.transform import Transform, TransformError, asked_transform

_HUNDRED = 100
_UNITS_OF_DESTINATION = 8
_CHARACTERS_OF_UNIT = 10  # of a destination

# Destinations, each with the bound below which a random number chooses it.
_Choices = list[tuple[int, Transform]]


class SubjectMappings:
    """The mappings of one account.

    Args:
        mappings: as configured.
        random: chooses among destinations.
        refuse: takes the source of a mapping that is left out because it and a destination do not
            fit together, and the error; without it that is raised.

    Attributes:
        configured: the same mappings.

    Raises:
        ConfigError: a source and a destination do not fit together.
    """

    def __init__(
        self,
        mappings: Sequence[SubjectMapping],
        random: Random,
        refuse: Callable[[str, TransformError], None] | None = None,
    ) -> None:
        self._random = random
        self._hold(mappings, list(_choices_of(mappings, refuse)))

    @classmethod
    def in_steps(
        cls,
        mappings: Sequence[SubjectMapping],
        random: Random,
        refuse: Callable[[str, TransformError], None] | None = None,
    ) -> Generator[int, None, SubjectMappings]:
        """Make the same in steps, as there may be thousands; give after each what it took, in units
        of some microseconds.

        Raises:
            ConfigError: a source and a destination do not fit together.
        """
        choices: list[tuple[bytes, _Choices]] = []
        for each in mappings:
            choices += _choices_of([each], refuse)
            characters = sum([len(to.subject) for to in each.destinations])
            yield len(each.destinations) * _UNITS_OF_DESTINATION + (
                characters // _CHARACTERS_OF_UNIT
            )
        made = cls((), random)
        made._hold(mappings, choices)
        return made

    def _hold(
        self, mappings: Sequence[SubjectMapping], choices: list[tuple[bytes, _Choices]]
    ) -> None:
        self.configured = mappings
        self._literal = {source: chosen for source, chosen in choices if is_literal(source)}
        self._patterns = [each for each in choices if each[0] not in self._literal]
        # Which of them match a subject; nothing is delivered by this list.
        self._sources = Sublist()
        nobody = cast(Receiver, None)
        self._number_of = {
            Subscription(source, nobody): number
            for number, (source, _) in enumerate(self._patterns)
        }
        self._sources.insert_all(list(self._number_of))

    def apply(self, subject: bytes) -> bytes:
        """Return where a subject goes, empty for nowhere."""
        choices = self._choices_for(subject)
        if choices is None:
            return subject
        number = self._random.randrange(_HUNDRED)
        for bound, transform in choices:
            if number < bound:
                return transform.apply(subject, self._random) or b""
        return b""

    def covers(self, subject: bytes) -> bool:
        """Tell whether a mapping is about a subject."""
        return self._choices_for(subject) is not None

    def _choices_for(self, subject: bytes) -> _Choices | None:
        choices = self._literal.get(subject)
        if choices is None:
            found = self._sources.match(subject).plain
            if found:
                choices = self._patterns[min(map(self._number_of.__getitem__, found))][1]
        return choices


def _choices_of(
    mappings: Sequence[SubjectMapping], refuse: Callable[[str, TransformError], None] | None
) -> Iterator[tuple[bytes, _Choices]]:
    for mapping in mappings:
        try:
            yield mapping.source.encode(), _choices(mapping)
        except _ImpossibleError as impossible:
            if refuse is None:
                raise ConfigError(str(impossible)) from impossible.error
            refuse(mapping.source, impossible.error)


class _ImpossibleError(Exception):
    def __init__(self, source: str, destination: str, error: TransformError) -> None:
        super().__init__(f'Error adding mapping for "{source}" to "{destination}" : {error}')
        self.error = error


def _choices(mapping: SubjectMapping) -> _Choices:
    bound, choices = 0, []
    # Destinations for a named cluster do not concern a server without one.
    destinations = [each for each in mapping.destinations if not each.cluster]
    for destination in destinations:
        bound += destination.weight
        choices.append((bound, _transform(mapping.source, destination.subject)))
    if bound < _HUNDRED and all(each.subject != mapping.source for each in destinations):
        choices.append((_HUNDRED, _unchanged(mapping.source)))
    return choices


def _transform(source: str, destination: str) -> Transform:
    try:
        return asked_transform(source.encode(), destination.encode())
    except TransformError as error:
        raise _ImpossibleError(source, destination, error) from None


def _unchanged(source: str) -> Transform:
    """Return a transform that leaves every subject of a pattern as it is; there is none if a token
    of the pattern means something in a destination."""
    stars = 0
    tokens = []
    for token in source.split("."):
        stars += token == "*"
        tokens.append(f"${stars}" if token == "*" else token)
    try:
        return Transform(source.encode(), ".".join(tokens).encode())
    except TransformError as error:
        raise _ImpossibleError(source, source, error) from None
