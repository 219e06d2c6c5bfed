"""JSON requests to typed models, and answers to JSON, as Go's `encoding/json` does both.

Clients compare error texts, and some rely on leniencies: keys match whatever their case, the last
duplicate wins, several values in one body are decoded onto the same struct, null leaves a field
alone. Unknown fields are refused by name. Encoding escapes `<`, `>`, `&` and the two line
separators, so that subjects appear as `"orders.\\u003e"`.

A request is a pydantic model whose fields stand in the order of the wire, with the zero value of
Go's field as default. Fields are annotated with the aliases below (`Int64`, `Duration`, `Time`);
`str`, `bool`, `list[str]`, `dict[str, str]` and other models need none. The model's `go_name`
is what error texts call it.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Annotated, Any, ClassVar, Protocol, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict

from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.wire.go_quote import quoted
from jetstream_server.jetstream.wire.go_time import Instant, format_time, parse_time
from jetstream_server.jetstream.wire.json_extent import excess
from jetstream_server.jetstream.wire.json_syntax import (
    JsonSyntaxError,
    parse_value,
    parse_values,
)
from jetstream_server.jetstream.wire.json_value import ReadValue, has_single_keys
from jetstream_server.protocol.encoder import json_text


class Always:
    """Marks a field that is written even at its zero value."""


ALWAYS = Always()


@dataclass(frozen=True, slots=True)
class Integer:
    """A Go integer type and its bounds."""

    go_type: str
    smallest: int
    largest: int


@dataclass(frozen=True, slots=True)
class Enum:
    """A string of few values; `refusal` may quote the JSON sent (`%s`) or quote it again (`%q`).

    `strict_kind` refuses values that are not strings as a type error instead; where `any_case` is
    set, letters of either case are taken.
    """

    names: tuple[str, ...]
    refusal: str = "can not unmarshal %q"
    strict_kind: bool = False
    any_case: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A time.Time."""


@dataclass(frozen=True, slots=True)
class GoType:
    """Overrides the name of a slice's type in error texts: `[]*server.StreamSource`."""

    go_type: str


Int = Annotated[int, Integer("int", -(2**63), 2**63 - 1)]
Int32 = Annotated[int, Integer("int32", -(2**31), 2**31 - 1)]
Int64 = Annotated[int, Integer("int64", -(2**63), 2**63 - 1)]
Uint64 = Annotated[int, Integer("uint64", 0, 2**64 - 1)]
Duration = Annotated[int, Integer("time.Duration", -(2**63), 2**63 - 1)]
Time = Annotated[Instant, Moment()]


class GoModel(BaseModel):
    """A JSON object of the API; immutable, compared by value."""

    # Requests are checked by `decode`, so most models never need pydantic's validator: it is built
    # when one does. As long as none does, the 3 MiB that build validators are not imported; so a
    # default that is a model is made by `model_construct`.
    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True
    )
    go_name: ClassVar[str] = ""

    def to_wire(self) -> dict[str, Any]:
        """Return the object in wire order, without the zero values that Go omits."""
        wire: dict[str, Any] = {}
        for name, always in _wire_fields(type(self)):
            value = getattr(self, name)
            if always or not _is_zero(value):
                wire[name] = _wire_value(value)
        return wire


Model = TypeVar("Model", bound=GoModel)


READ_BYTES_OF_UNIT = 800  # of the workload: so many of the worst bodies are read in 0.1 ms
# Told of the units that reading has taken beyond those that come with each request.
Spend = Callable[[float], object]


def spend_nothing(units: float) -> None:
    """Nobody counts."""


def encode(value: object, *, indented: bool = False) -> bytes:
    """Return JSON, compact unless it is for people, with the characters escaped that Go escapes."""
    return json_text(value, indented=indented)


def decode(
    body: bytes,
    model: type[Model],
    *,
    strict: bool = True,
    is_stored: bool = False,
    spend: Spend = spend_nothing,
) -> Model:
    """Read a request; an empty body gives the model's zero value.

    Args:
        strict: refuse unknown fields; a few verbs are lenient, refuse what follows the value, and
            word syntax errors differently.
        is_stored: it was accepted once, so it may be larger than what may be asked for now.
        spend: told of the units of work that it takes to read a long body, or to find the mistake
            in one.

    Raises:
        ApiError: 10025 with the text of the first mistake.
    """
    steps = decode_in_steps(body, model, strict=strict, is_stored=is_stored, spend=spend)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        model_read: Model = end.value
        return model_read


def decode_in_steps(
    body: bytes,
    model: type[Model],
    *,
    strict: bool = True,
    is_stored: bool = False,
    spend: Spend = spend_nothing,
) -> Generator[None, None, Model]:
    """Do as `decode` does, with a pause after the body is read and before it is understood: either
    takes a while for a long one."""
    if len(body) > READ_BYTES_OF_UNIT:
        spend(len(body) / READ_BYTES_OF_UNIT)
    nodes, broken = _read(body, strict, spend, is_stored)
    if not is_stored:
        _check_size(nodes)
    yield
    try:
        return _decode_nodes(nodes, broken, model, strict)
    except ApiError:
        if len(body) > PRECISE_BYTES_MAX or not isinstance(next(iter(nodes), None), ReadValue):
            raise
    # Refusals quote what was sent as it was sent.
    nodes, broken = _read_precisely(body, strict, spend)
    return _decode_nodes(nodes, broken, model, strict)


def _check_size(nodes: Sequence[JsonValue]) -> None:
    for node in nodes:
        if isinstance(node, ReadValue) and (count := node.objects_in_lists()) > OBJECTS_MAX:
            raise errors.INVALID_JSON(
                f"lists hold {count} objects or more, of which at most {OBJECTS_MAX} are read"
            )


def _decode_nodes(
    nodes: Sequence[JsonValue],
    broken: JsonSyntaxError | None,
    model: type[Model],
    strict: bool,
) -> Model:
    values: dict[str, Any] = {}
    for node in nodes:
        try:
            _decode_top(node, model, values, strict)
        except _MisfitError as misfit:
            raise errors.INVALID_JSON(str(misfit)) from None
    if broken is not None:
        raise errors.INVALID_JSON(_syntax_text(broken, strict))
    return _construct(model, values)


def is_empty_request(body: bytes) -> bool:
    """Tell whether a body counts as none: no bytes, or one object without members."""
    return not body or _EMPTY_OBJECT.fullmatch(body) is not None


def looks_like_json(body: bytes) -> bool:
    """Tell whether a body starts an object or array; some verbs ignore any other."""
    return body.lstrip(b" \t\r\n")[:1] in (b"{", b"[")


# -- decoding ---------------------------------------------------------------------------------

# A longer request is not looked at letter by letter, which takes up to 2.4 ms for each KiB: the
# text of its refusal may differ, and of two members with the same name only the last one is seen.
PRECISE_BYTES_MAX = 2 * 1024
PRECISE_BYTES_OF_UNIT = 43  # of the workload: so many are looked at in 0.1 ms

# Sources, transforms and their like, in one request: each takes some tens of microseconds to read,
# and as long to put into force.
OBJECTS_MAX = 1000

# Of an object in a lenient request, most of which it has to pass over.
MEMBERS_MAX = 10_000

# Minus zero: it fits no unsigned integer, but the quick reader takes it for zero.
_NEGATIVE_ZERO = re.compile(rb"[\[:,\s]-0[\s,}\]]")
_EMPTY_OBJECT = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*\}[ \t\r\n]*")


class _MisfitError(ValueError):
    """A value that does not fit its field; the text goes to the client."""


class JsonValue(Protocol):
    """One value, as `json_syntax.JsonNode` says."""

    @property
    def kind(self) -> str: ...

    @property
    def value(self) -> Any: ...

    @property
    def source(self) -> str: ...


_Read = tuple[Sequence[JsonValue], JsonSyntaxError | None]


def _read(body: bytes, strict: bool, spend: Spend, is_stored: bool) -> _Read:
    """Return the values of a request, and what ended them early, if anything.

    Raises:
        ApiError: it holds too much to be read.
    """
    if not is_stored and (too_much := excess(body)):
        if (read := _broken_early(body, strict, spend)) is not None:
            return read
        raise errors.INVALID_JSON(too_much)
    try:
        plain = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if len(body) <= PRECISE_BYTES_MAX:
            return _read_precisely(body, strict, spend)
        return _broken_early(body, strict, spend) or (
            [],
            JsonSyntaxError(error.msg, len(error.doc[: error.pos].encode())),
        )
    if len(body) <= PRECISE_BYTES_MAX and (
        _NEGATIVE_ZERO.search(body) or not has_single_keys(body, plain)
    ):
        return _read_precisely(body, strict, spend)
    return [ReadValue(plain)], None


def _broken_early(body: bytes, strict: bool, spend: Spend) -> _Read | None:
    """Return what precedes a mistake within the first bytes of a long request, and the mistake:
    it is told as in a short one. None if there is none."""
    nodes, broken = _read_precisely(body[:PRECISE_BYTES_MAX], strict, spend)
    return (nodes, broken) if broken is not None and broken.offset >= 0 else None


def _read_precisely(body: bytes, strict: bool, spend: Spend) -> _Read:
    spend(len(body) / PRECISE_BYTES_OF_UNIT)
    return parse_values(body) if strict else _only_value(body)


def _only_value(body: bytes) -> _Read:
    try:
        node = parse_value(body)
    except JsonSyntaxError as error:
        return [], error
    return ([] if node is None else [node]), None


def _syntax_text(error: JsonSyntaxError, strict: bool) -> str:
    if error.offset < 0:
        return "unexpected EOF" if strict else "unexpected end of JSON input"
    return f"{error.text} at offset {error.offset}" if strict else error.text


def _decode_top(
    node: JsonValue, model: type[GoModel], values: dict[str, Any], strict: bool
) -> None:
    if node.kind == "null":
        return
    name = model.go_name or model.__name__
    if node.kind != "object":
        raise _MisfitError(
            f"json: cannot unmarshal {node.kind} into Go value of type server.{name}"
        )
    _decode_members(node, model, values, _Path(name, "", False), strict)


@dataclass(frozen=True, slots=True)
class _Path:
    """Where a value stands: `StreamConfigRequest`, `sources.0.name`."""

    struct: str
    field: str
    is_element: bool

    def into(self, name: str, is_element: bool = False) -> _Path:
        field = f"{self.field}.{name}" if self.field else name
        return _Path(self.struct, field, is_element)

    def refuse(self, what: str, go_type: str) -> _MisfitError:
        where = f"{self.struct}.{self.field}"
        if not self.is_element:
            where = "Go struct field " + where
        return _MisfitError(f"json: cannot unmarshal {what} into {where} of type {go_type}")


def _decode_members(
    node: JsonValue, model: type[GoModel], values: dict[str, Any], path: _Path, strict: bool
) -> None:
    fields = _fields(model)
    if not strict and isinstance(node, ReadValue) and len(node.plain) > MEMBERS_MAX:
        count = len(node.plain)
        raise _MisfitError(f"{count} members, of which at most {MEMBERS_MAX} are read")
    for key, member in node.value:
        found = fields.get(key) or fields.get(key.casefold())
        if found is None:
            if strict:
                raise _MisfitError(f"json: unknown field {quoted(key)}")
            continue
        name, shape = found
        value = _decode_value(member, shape, path.into(name), strict)
        if value is not _KEEP:
            values[name] = value


_KEEP: Any = object()


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a field takes: the annotation's type and its markers."""

    base: Any
    marker: Any
    element: _Shape | None = None


def _decode_value(node: JsonValue, shape: _Shape, path: _Path, strict: bool) -> Any:
    marker = shape.marker
    if isinstance(marker, Enum):
        return _decode_enum(node, marker)
    if node.kind == "null":
        return _KEEP
    if isinstance(marker, Integer):
        return _decode_integer(node, marker, path)
    if isinstance(marker, Moment):
        if node.kind != "string":
            raise path.refuse(node.kind, "time.Time")
        try:
            return parse_time(node.value)
        except ValueError as error:
            raise _MisfitError(str(error)) from None
    if shape.base is str or shape.base is bool:
        kind, go_type = ("string", "string") if shape.base is str else ("bool", "bool")
        if node.kind != kind:
            raise path.refuse(node.kind, go_type)
        return node.value
    if shape.base is list:
        return _decode_list(node, shape, path, strict)
    if shape.base is dict:
        return _decode_map(node, shape, path, strict)
    if node.kind != "object":
        raise path.refuse(node.kind, _go_type(shape))
    values: dict[str, Any] = {}
    _decode_members(node, shape.base, values, path, strict)
    return _construct(shape.base, values)


def _decode_enum(node: JsonValue, enum: Enum) -> str:
    if enum.strict_kind and node.kind not in ("string", "null"):
        raise _MisfitError(f"json: cannot unmarshal {node.kind} into Go value of type string")
    name = str(node.value).lower() if enum.any_case else node.value
    if node.kind != "string" or name not in enum.names:
        sent = node.source.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        text = enum.refusal.replace("%q", quoted(node.source)).replace("%s", sent)
        raise _MisfitError(text)
    return str(name)


def _decode_integer(node: JsonValue, integer: Integer, path: _Path) -> int:
    if node.kind != "number":
        raise path.refuse(node.kind, integer.go_type)
    digits = node.value.removeprefix("-")
    # No int() of a text that is too long to fit anyway: its cost grows with the square.
    if not digits.isdigit() or len(digits) > 20:
        raise path.refuse(f"number {node.value}", integer.go_type)
    value = int(node.value)
    is_signed = integer.smallest < 0 or not node.value.startswith("-")
    if not (is_signed and integer.smallest <= value <= integer.largest):
        raise path.refuse(f"number {node.value}", integer.go_type)
    return value


def _decode_list(node: JsonValue, shape: _Shape, path: _Path, strict: bool) -> list[Any]:
    if node.kind != "array":
        raise path.refuse(node.kind, _go_type(shape))
    assert shape.element is not None
    if isinstance(node, ReadValue) and _is_simple(shape.element):
        plain: list[Any] = node.plain
        kinds = {*map(type, plain)}
        if (at := _misfit_at(shape.element, plain, kinds)) >= 0:
            _decode_value(ReadValue(plain[at]), shape.element, path.into(str(at), True), strict)
        if type(None) in kinds:
            zero = _zero(shape.element)
            return [zero if each is None else each for each in plain]
        return plain
    values = []
    for index, member in enumerate(node.value):
        value = _decode_value(member, shape.element, path.into(str(index), True), strict)
        values.append(_zero(shape.element) if value is _KEEP else value)
    return values


def _decode_map(node: JsonValue, shape: _Shape, path: _Path, strict: bool) -> dict[str, Any]:
    if node.kind != "object":
        raise path.refuse(node.kind, _go_type(shape))
    assert shape.element is not None
    if isinstance(node, ReadValue) and _is_simple(shape.element):
        plain: dict[str, Any] = node.plain
        kinds = {*map(type, plain.values())}
        if (at := _misfit_at(shape.element, plain.values(), kinds)) >= 0:
            key, member = next(islice(plain.items(), at, None))
            _decode_value(ReadValue(member), shape.element, path.into(key), strict)
        if type(None) in kinds:
            zero = _zero(shape.element)
            return {key: zero if each is None else each for key, each in plain.items()}
        return plain
    values = {}
    for key, member in node.value:
        value = _decode_value(member, shape.element, path.into(key), strict)
        values[key] = _zero(shape.element) if value is _KEEP else value
    return values


def _is_simple(shape: _Shape) -> bool:
    """Tell whether texts or integers are wanted. There may be very many, and each takes two
    microseconds if it is decoded like other values."""
    return isinstance(shape.marker, Integer) or (shape.base is str and shape.marker is None)


def _misfit_at(shape: _Shape, values: Collection[Any], kinds: set[type]) -> int:
    """Return where the first value is that is neither null nor what is wanted; -1 for nowhere.

    Args:
        kinds: the types of all values.
    """
    marker, at = shape.marker, -1
    wanted = int if isinstance(marker, Integer) else str
    if misfits := kinds - {wanted, type(None)}:
        types = [*map(type, values)]
        at = min(map(types.index, misfits))
    if isinstance(marker, Integer):
        smallest, largest = marker.smallest, marker.largest
        if kinds == {int} and smallest <= min(values) and max(values) <= largest:
            return -1
        for index, each in enumerate(islice(values, at if at >= 0 else None)):
            if each is not None and not smallest <= each <= largest:
                return index
    return at


def _construct(model: type[Model], values: dict[str, Any]) -> Model:
    """Make a model of values that are already of the right types.

    With every field given, pydantic does not look for defaults, which costs it a millisecond for
    a stream config. Empty lists and maps are shared; models are immutable.
    """
    return model.model_construct(**(_defaults(model) | values))


@cache
def _defaults(model: type[GoModel]) -> dict[str, Any]:
    # Not by pydantic's `get_default`, which finds out whether each factory takes arguments: that
    # takes milliseconds, and the first request would keep others waiting.
    return {
        name: field.default if (factory := field.default_factory) is None else factory()  # type: ignore[call-arg]
        for name, field in model.model_fields.items()
    }


def _zero(shape: _Shape) -> Any:
    return _construct(shape.base, {}) if issubclass(shape.base, GoModel) else shape.base()


def _go_type(shape: _Shape) -> str:
    if isinstance(shape.marker, GoType | Integer):
        return shape.marker.go_type
    if shape.base is list:
        assert shape.element is not None
        return "[]" + _go_type(shape.element)
    if shape.base is dict:
        assert shape.element is not None
        return "map[string]" + _go_type(shape.element)
    if shape.base is str:
        return "string"
    if shape.base is bool:
        return "bool"
    return f"server.{shape.base.go_name or shape.base.__name__}"


@cache
def _fields(model: type[GoModel]) -> dict[str, tuple[str, _Shape]]:
    """Return (name, shape) by name and by folded name; names with capitals do not occur."""
    hints = typing.get_type_hints(model, include_extras=True)
    return {name: (name, _shape(hints[name])) for name in model.model_fields}


def _shape(annotation: Any) -> _Shape:
    marker: Any = None
    while True:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            annotation, *markers = typing.get_args(annotation)
            marker = next((m for m in markers if not isinstance(m, Always)), marker)
        elif origin in (typing.Union, types.UnionType):
            (annotation,) = (a for a in typing.get_args(annotation) if a is not type(None))
        else:
            break
    if origin is list:
        return _Shape(list, marker, _shape(typing.get_args(annotation)[0]))
    if origin is dict:
        return _Shape(dict, marker, _shape(typing.get_args(annotation)[1]))
    return _Shape(annotation, marker)


# -- encoding ---------------------------------------------------------------------------------


@cache
def _wire_fields(model: type[GoModel]) -> list[tuple[str, bool]]:
    return [(name, ALWAYS in field.metadata) for name, field in model.model_fields.items()]


def _is_zero(value: Any) -> bool:
    return not isinstance(value, GoModel | Instant) and not value


def _wire_value(value: Any) -> Any:
    if isinstance(value, GoModel):
        return value.to_wire()
    if isinstance(value, Instant):
        return format_time(value)
    if isinstance(value, list):
        if {*map(type, value)} <= {str, int}:  # ten thousand subjects, say
            return value[:]
        return [_wire_value(element) for element in value]
    if isinstance(value, dict):  # Go writes maps with sorted keys
        return {key: _wire_value(value[key]) for key in sorted(value)}
    return value
