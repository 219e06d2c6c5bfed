"""The `mappings` block: subjects that are replaced on publish.

Whether source and destination make a transform is decided by `core/transform.py`, a floor above.
"""

from __future__ import annotations

from typing import Any

from jetstream_server.base.digits import unsigned
from jetstream_server.base.errors import ConfigError
from jetstream_server.config import values
from jetstream_server.config.lexer import Token
from jetstream_server.config.options import MappingDestination, SubjectMapping
from jetstream_server.config.values import error_at, expect, is_subject, read_table, shown

_WEIGHT_MAX = 100


def read_mappings(key: str, token: Token, errors: list[ConfigError]) -> tuple[SubjectMapping, ...]:
    """Read the block; what is wrong with one mapping goes to `errors`."""
    made: list[SubjectMapping] = []
    for source, item in values.mapping(key, token).items():
        try:
            made.append(_read_mapping(source, item, token, errors))
        except ConfigError as error:
            errors.append(error)
    return tuple(made)


def _read_mapping(
    source: str, item: Token, block: Token, errors: list[ConfigError]
) -> SubjectMapping:
    if not is_subject(source):
        raise error_at(block, f'Subject "{source}" is not a valid subject')
    if isinstance(item.value, str):
        return SubjectMapping(source, (MappingDestination(item.value),))
    entries = item.value if isinstance(item.value, list) else [item]
    destinations = tuple([_read_destination(entry, errors) for entry in entries])
    total: dict[str, int] = {}
    for destination in destinations:
        cluster = destination.cluster
        total[cluster] = total.get(cluster, 0) + destination.weight
    if any(weight > _WEIGHT_MAX for weight in total.values()):
        text = f'Error adding mapping for "{source}" : total weight needs to be <= 100'
        raise error_at(item, text)
    return SubjectMapping(source, destinations)


def _read_destination(entry: Token, errors: list[ConfigError]) -> MappingDestination:
    expect(entry, dict, "Expected an entry for the mapping destination")
    table: values.Table = {
        "dest": ("subject", values.string),
        "destination": ("subject", values.string),
        "weight": ("weight", _weight),
        "cluster": ("cluster", values.string),
    }
    unknown = 'Unknown field "{}" for mapping destination'
    before = len(errors)
    given: dict[str, Any] = read_table(entry.value, table, errors, unknown)
    if "weight" not in given and len(errors) == before:
        text = f'Missing weight for mapping destination "{given.get("subject", "")}"'
        errors.append(error_at(entry, text))
    return MappingDestination(**{"subject": "", **given})


def _weight(key: str, token: Token) -> int:
    value = token.value
    if isinstance(value, str):
        text = value.removesuffix("%")
        value = unsigned(text)
        if value < 0:
            raise error_at(token, f'Invalid weight "{text}" for mapping destination')
    if type(value) is not int:
        raise error_at(token, f"Unknown entry type for weight of {shown(value)}\n")
    if not 0 <= value <= _WEIGHT_MAX:
        raise error_at(token, f"Invalid weight {value} for mapping destination")
    return value
