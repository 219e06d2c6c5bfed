"""The syntax of NATS configuration files: text to a tree of `Token`s.

Maps, arrays, numbers with size suffixes, bare and quoted strings, block strings, `$variables` (from
enclosing maps, then from the environment), `include`, comments. What each option means is not known
here. Every value remembers the place of its key, so that `config/load.py` can name it.

The grammar and the texts of refusals are those of nats-server 2.15.1
(docs/reference/configuration.md#file-syntax). It differs on purpose where the genuine lexer has a
slip: `[1]` is an array of one number (there, an error), and a number whose suffix overflows is out
of range (there, it wraps).
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson

from jetstream_server.base.errors import ConfigError

# Deeper nesting is a mistake, and Python's stack ends near a thousand.
_DEPTH_MAX = 100
_INCLUDES_MAX = 32

_BLANKS = " \t"
_LINE_ENDS = "\n\r"
_SPACES = " \t\n\r\v\f"
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_INTEGER = re.compile(r"(-?[0-9]+)([kmgtpe](?:ib?|b)?)?", re.IGNORECASE)
_VALUE_END = re.compile(r"[ \t\n\r,;}\]]|\Z")
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]+")
_ADDRESS = re.compile(r"[0-9.:-]+")
_HEX_PAIR = re.compile(r"[0-9a-fA-F]{2}")
_POWERS = "kmgtpe"
_INT64_MAX = 2**63 - 1
_BCRYPT_PREFIX = "2a$"


@dataclass(slots=True)
class Token:
    """A value and where it stands.

    Attributes:
        value: str, int, float, bool, datetime, `dict[str, Token]` or `list[Token]`.
        path: the file, as it was named.
        line: from 1; of the key, for a value in a map.
        column: in bytes; from 0 on the first line, from 1 on others, as the genuine server counts.
        is_variable: a `$variable` refers to it, so its key need not be known.
    """

    value: Any
    path: str = ""
    line: int = 0
    column: int = 0
    is_variable: bool = False


class EmptyConfigError(ConfigError):
    """There is nothing in the file: a server starts all the same, but a check and a reload refuse
    it.

    Args:
        path: of the file.
    """

    def __init__(self, path: str):
        super().__init__(f"{path}: config has no values or is empty\n")
        self.token = Token({}, path)


def parse_file(path: str, environment: Mapping[str, str] = os.environ) -> Token:
    """Read a configuration file and all that it includes.

    Returns:
        A token whose value is the top map.

    Raises:
        EmptyConfigError: there is nothing in it.
        ConfigError: it cannot be read or understood.
    """
    return parse_text(_read(path), path, environment)


def parse_text(text: str, path: str, environment: Mapping[str, str] = os.environ) -> Token:
    """Parse the text of a configuration file; `path` is for messages and includes."""
    top: dict[str, Token] = {}
    _ConfigParser(text, path, [top], environment, ()).top()
    if not top:
        raise EmptyConfigError(path)
    return Token(top, path)


def digest(token: Token) -> str:
    """Return the digest that `-t` prints: of the values, not of the text."""
    encoded = orjson.dumps(
        plain(token), option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE
    )
    for character in (b"<", b">", b"&"):
        encoded = encoded.replace(character, b"\\u00%x" % character[0])
    return "sha256:" + hashlib.sha256(encoded).hexdigest()


def plain(token: Token) -> Any:
    """Return the value without positions."""
    value = token.value
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode()
    except OSError as error:
        verb = "read" if isinstance(error, IsADirectoryError) else "open"
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{verb} {path}: {reason}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text at byte {error.start}") from error


def _is_text(text: str) -> bool:
    """Tell whether every byte of an environment variable was a character."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _shown(character: str) -> str:
    return {"": "\0", "\n": "\\n"}.get(character, character)


_SIZED_AT_ONCE = 1024  # characters


@dataclass(slots=True, eq=False)
class _ConfigParser:
    """One file being parsed.

    Attributes:
        scopes: the maps that enclose the current place, innermost last; variables are looked up
            there.
        opened: the files and environment variables being parsed, so that circles are found.
    """

    text: str
    path: str
    scopes: list[dict[str, Token]]
    environment: Mapping[str, str]
    opened: tuple[str, ...]
    at: int = 0
    # Where lines end; and, unless a character is a byte, how many bytes there are before every so
    # many characters: a configuration that a program has written may be one long line.
    ends: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ends = [found.start() for found in re.finditer("\n", self.text)]
        if not self.text.isascii():
            pieces = range(0, len(self.text), _SIZED_AT_ONCE)
            sizes = [len(self.text[at : at + _SIZED_AT_ONCE].encode()) for at in pieces]
            self.sizes = [0, *accumulate(sizes)]

    # Places and refusals.

    def line(self, at: int) -> int:
        return bisect_left(self.ends, at) + 1

    def token(self, value: Any, start: int) -> Token:
        lines = bisect_left(self.ends, start)
        column = self.size(start) - (self.size(self.ends[lines - 1]) if lines else 0)
        return Token(value, self.path, lines + 1, column)

    def size(self, at: int) -> int:
        """Return how many bytes there are before a place."""
        if not self.sizes:
            return at
        piece = at // _SIZED_AT_ONCE
        return self.sizes[piece] + len(self.text[piece * _SIZED_AT_ONCE : at].encode())

    def refusal(self, text: str, after: int | None = None) -> ConfigError:
        line = self.line(self.at + 1 if after is None else after)
        return ConfigError(f"Parse error on line {line}: '{text}'")

    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, characters: str) -> str:
        text, at, end = self.text, self.at, len(self.text)
        while at < end and text[at] in characters:
            at += 1
        self.at = at
        return text[at : at + 1]

    def skip_comment(self) -> bool:
        if self.next() == "#" or self.text.startswith("//", self.at):
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
            return True
        return False

    # Maps.

    def top(self) -> None:
        into = self.scopes[-1]
        while self.skip(_SPACES):
            if self.skip_comment():
                continue
            character = self.next()
            if character == "/":
                raise self.refusal("Unexpected EOF.", len(self.text))
            # A whole file in braces; the closing one counts only at the end.
            if character == "{" or (character == "}" and not self.text[self.at + 1 :].strip()):
                self.at += 1
                continue
            self.pair(into, is_top=True)
            self.after_top_value()

    def after_top_value(self) -> None:
        while True:
            character = self.skip(_BLANKS)
            if not character or self.skip_comment():
                return
            self.at += 1
            if character in "\n\r,;}":
                return
            if character != "/":
                raise self.refusal(
                    "Expected a top-level value to end with a new line, comment or EOF,"
                    f" but got '{character}' instead.",
                    self.at,
                )

    def map(self, depth: int) -> dict[str, Token]:
        into: dict[str, Token] = {}
        self.scopes.append(into)
        self.at += 1
        while True:
            character = self.skip(_SPACES)
            if not character:
                raise self.refusal("Unexpected EOF processing map.")
            if character == "}":
                break
            if self.skip_comment():
                continue
            self.pair(into, is_top=False, depth=depth)
            character = self.skip(_BLANKS)
            if self.skip_comment():
                continue
            if character == "}":
                break
            if not character or character not in ",;\n\r":
                raise self.refusal(
                    'Expected a map value terminator "," or a map terminator "}", but got'
                    f" '{_shown(character)}' instead."
                )
            self.at += 1
        self.at += 1
        self.scopes.pop()
        return into

    def pair(self, into: dict[str, Token], is_top: bool, depth: int = 0) -> None:
        start = self.at + (self.next() in "\"'")
        key, is_bare = self.key(is_top)
        if is_bare and key.lower() == "include" and self.next() and self.next() not in ":=":
            self.include(into)
            return
        character = self.skip(_SPACES)
        if not character and is_top:
            place = self.token(None, len(self.text))
            raise ConfigError(f"config is invalid ({self.path}:{place.line}:{place.column})")
        if character in (":", "="):
            self.at += 1
        if not is_top:
            self.skip(_SPACES)
        token = self.token(None, start)
        token.value = self.value(depth)
        into[key] = token

    def key(self, is_top: bool) -> tuple[str, bool]:
        character = self.next()
        if character in ":=":
            dot = "" if is_top else "."
            raise self.refusal(f"Unexpected key separator '{character}'{dot}")
        if character in "\"'":
            end = self.text.find(character, self.at + 1)
            if end < 0:
                kind = "quoted" if character == "'" else "double quoted"
                where = "" if is_top else f" processing {kind} map key"
                raise self.refusal(f"Unexpected EOF{where}.", len(self.text))
            key = self.text[self.at + 1 : end]
            self.at = end + 1
            return key, False
        start, end = self.at, len(self.text)
        while self.at < end and self.text[self.at] not in " \t\n\r:=":
            self.at += 1
        if self.at == end and not is_top:
            raise self.refusal("Unexpected EOF processing map key.")
        return self.text[start : self.at], True

    def include(self, into: dict[str, Token]) -> None:
        character = self.skip(_BLANKS)
        if character and character in _LINE_ENDS:
            raise self.refusal("Expected include value but found new line")
        name = str(self.string() if character and character in "\"'" else self.bare_text()[0])
        path = os.path.normpath(Path(self.path).parent / name)
        try:
            if len(self.opened) >= _INCLUDES_MAX:
                raise ConfigError("files include each other")
            # A separate file: it does not see the variables of the one that includes it.
            included: dict[str, Token] = {}
            opened = (*self.opened, path)
            _ConfigParser(_read(path), path, [included], self.environment, opened).top()
            into.update(included)
        except ConfigError as error:
            raise ConfigError(f"error parsing include file '{name}', {error}") from error

    # Values.

    def value(self, depth: int) -> Any:
        character = self.skip(_BLANKS)
        if depth > _DEPTH_MAX:
            raise self.refusal(f"Values are nested more than {_DEPTH_MAX} deep")
        if not character:
            return ""
        if character in _LINE_ENDS:
            raise self.refusal("Expected value but found new line")
        if character == "{":
            return self.map(depth + 1)
        if character == "[":
            return self.array(depth + 1)
        if character in "\"'":
            return self.string()
        if character == "(":
            return self.block()
        if character == "-":
            return self.negative()
        if character == ".":
            raise self.refusal("Floats must start with a digit")
        if character in "0123456789":
            return self.number()
        return self.bare()

    def array(self, depth: int) -> list[Token]:
        items: list[Token] = []
        self.at += 1
        while True:
            character = self.skip(_SPACES)
            if self.skip_comment():
                continue
            if character == ",":
                raise self.refusal("Unexpected array value terminator ','.")
            if character == "]":
                break
            start = self.at
            value = self.value(depth)
            # The place of a map is where it ends, as in the genuine server.
            items.append(self.token(value, self.at if isinstance(value, dict) else start))
            character = self.skip(_BLANKS)
            if self.skip_comment():
                continue
            if character == "]":
                break
            if not character or character not in ",\n\r":
                raise self.refusal(
                    'Expected an array value terminator "," or an array terminator "]", but got'
                    f" '{_shown(character)}' instead."
                )
            self.at += 1
        self.at += 1
        return items

    def string(self) -> str:
        quote = self.next()
        self.at += 1
        if quote == "'":
            end = self.text.find("'", self.at)
            if end < 0:
                raise self.refusal("Unexpected EOF.", len(self.text))
            value = self.text[self.at : end]
            self.at = end + 1
            return value
        parts: list[str] = []
        while True:
            character = self.next()
            if not character:
                raise self.refusal("Unexpected EOF.")
            self.at += 1
            if character == '"':
                return "".join(parts)
            parts.append(self.escape() if character == "\\" else character)

    def escape(self) -> str:
        character = self.next()
        self.at += 1
        if character == "x":
            pair = self.text[self.at : self.at + 2]
            if _HEX_PAIR.fullmatch(pair) is None:
                shown = pair if len(pair) == 2 else self.text[-2:]
                raise self.refusal(
                    f"Expected two hexadecimal digits after '\\x', but got '{shown}'", self.at
                )
            self.at += 2
            return chr(int(pair, 16))
        if not character or character not in _ESCAPES:
            raise self.refusal(
                f"Invalid escape character '{_shown(character)}'. Only the following escape"
                ' characters are allowed: \\xXX, \\t, \\n, \\r, \\", \\\\.',
                self.at,
            )
        return _ESCAPES[character]

    def block(self) -> str:
        """Read up to a `)` alone on its line."""
        start = self.at + 1
        end = start
        while True:
            end = self.text.find(")", end)
            if end < 0:
                raise self.refusal("Unexpected EOF processing block.", len(self.text))
            after = self.text[end + 1 : end + 2]
            if self.text[end - 1] in _LINE_ENDS and (not after or after in _LINE_ENDS):
                self.at = end + 1
                return self.text[start:end]
            end += 1

    def negative(self) -> int | float:
        found = _INTEGER.match(self.text, self.at)
        if found is None:
            self.at += 1
            raise self.refusal(f"Expected a digit but got '{_shown(self.next())}'.")
        fraction = self.fraction(found)
        return self.integer(found) if fraction is None else fraction

    def number(self) -> Any:
        found = _INTEGER.match(self.text, self.at)
        assert found is not None
        after = self.text[found.end(1) : found.end(1) + 1]
        if after == "-":
            if len(found[1]) != 4:
                raise self.refusal("All ISO8601 dates must be in full Zulu form.", found.end(1) + 1)
            return self.date()
        if after == ".":
            address = _ADDRESS.match(self.text, self.at)
            fraction = self.fraction(found)
            if self.next() in (".", ":") and address is not None:
                self.at = address.end()
                return address[0]
            return fraction
        if _VALUE_END.match(self.text, found.end()) is None:
            return self.bare()
        return self.integer(found)

    def integer(self, found: re.Match[str]) -> int:
        self.at = found.end()
        suffix = (found[2] or "").lower()
        number = int(found[1]) if len(found[1]) <= 20 else _INT64_MAX + 1
        if suffix:
            base = 1000 if len(suffix) == 1 else 1024
            number *= base ** (_POWERS.index(suffix[0]) + 1)
        if not -_INT64_MAX - 1 <= number <= _INT64_MAX:
            raise ConfigError(f"integer '{found[0]}' is out of the range")
        return number

    def fraction(self, found: re.Match[str]) -> float | None:
        if self.text[found.end(1) : found.end(1) + 1] != ".":
            return None
        whole = _FLOAT.match(self.text, self.at)
        if whole is None:
            self.at = found.end(1) + 1
            raise self.refusal(
                f"Floats must have a digit after the '.', but got '{_shown(self.next())}' instead."
            )
        self.at = whole.end()
        return float(whole[0])

    def date(self) -> datetime.datetime:
        start = self.at
        self.at += 5
        for wanted in "dd-ddTdd:dd:ddZ":
            character = self.next()
            if wanted == "d" and not (character and character in "0123456789"):
                raise self.refusal(
                    f"Expected digit in ISO8601 datetime, but found '{_shown(character)}' instead."
                )
            if wanted != "d" and character != wanted:
                raise self.refusal(
                    f"Expected '{wanted}' in ISO8601 datetime, but found"
                    f" '{_shown(character)}' instead."
                )
            self.at += 1
        text = self.text[start : self.at]
        try:
            return datetime.datetime.fromisoformat(text)
        except ValueError:
            raise ConfigError(f"expected Zulu formatted DateTime, but got '{text}'") from None

    def bare(self) -> Any:
        start = self.at
        if self.next() == "}":
            return {}  # a key without value; the genuine server has a map there
        text, is_escaped = self.bare_text()
        if is_escaped:
            return text
        if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        return self.variable(text[1:], start) if text.startswith("$") else text

    def bare_text(self) -> tuple[str, bool]:
        parts: list[str] = []
        is_escaped = False
        while True:
            character = self.next()
            if not character or character in " \t\n\r,;]}":
                break
            self.at += 1
            if character == "'":
                break
            if character == "\\":
                is_escaped = True
                character = self.escape()
            parts.append(character)
        return "".join(parts), is_escaped

    def variable(self, name: str, start: int) -> Any:
        if name.startswith(_BCRYPT_PREFIX):
            return f"${name}"
        for scope in reversed(self.scopes):
            if name in scope:
                scope[name].is_variable = True
                return scope[name].value
        where = f"variable reference for '{name}' on line {self.line(start)}"
        mark = f"${name}"
        if name not in self.environment or mark in self.opened:
            raise ConfigError(f"{where} can not be found")
        made: dict[str, Token] = {}
        text = "value = " + self.environment[name]
        if not _is_text(text):
            raise ConfigError(f"{where} could not be parsed: it is not UTF-8 text")
        try:
            _ConfigParser(text, self.path, [made], self.environment, (*self.opened, mark)).top()
        except ConfigError as error:
            raise ConfigError(f"{where} could not be parsed: {error}") from error
        return made["value"].value
