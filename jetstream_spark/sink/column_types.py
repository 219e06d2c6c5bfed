"""Which columns a write may have, and of which types; all that is wrong is told at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

HEADERS = "map<string,array<string>>"


def missing_columns(
    schema: StructType, names: Sequence[str], allowed: Mapping[str, tuple[str, ...]]
) -> list[str]:
    """Return a sentence for each of the columns that a write needs and does not have."""
    given = {field.name.lower() for field in schema.fields}
    return [
        f"it has no column '{name}' ({' or '.join(allowed[name])})"
        for name in names
        if name not in given
    ]


def wrong_columns(
    schema: StructType,
    allowed: Mapping[str, tuple[str, ...]],
    place: str,
    elsewhere: Sequence[str] = (),
) -> list[str]:
    """Return a sentence for each column that a write does not take, or not so, or not twice.

    Args:
        allowed: the columns there are, in any case, and their types as `type_word` names them.
        place: where they are written, such as "a bucket".
        elsewhere: further columns, whose types somebody else looks at.
    """
    types = {name.lower(): kinds for name, kinds in allowed.items()}
    others = {name.lower() for name in elsewhere}
    problems = []
    given: dict[str, str] = {}  # by the name in small letters
    for field in schema.fields:
        name = field.name.lower()
        if name in given:
            problems.append(f"its columns '{given[name]}' and '{field.name}' have one meaning")
        given.setdefault(name, field.name)
        if name in others:
            continue
        if name not in types:
            known = ", ".join([*allowed, *elsewhere])
            problems.append(
                f"it has the column '{field.name}', which {place} has no place for "
                f"(there are {known})"
            )
        elif type_word(field.dataType) not in types[name]:
            problems.append(
                f"its column '{field.name}' is {field.dataType.simpleString()}, "
                f"but must be {' or '.join(dict.fromkeys(types[name]))}"
            )
    return problems


def type_word(data_type: DataType) -> str:
    """Name the type; collations and nullability make no difference here."""
    match data_type:
        case StringType():
            return "string"
        case BinaryType():
            return "binary"
        case MapType(keyType=StringType(), valueType=ArrayType(elementType=StringType())):
            return HEADERS
    return data_type.simpleString()
