"""Rows that show later whether a stream still has what a write was told that it has.

A server that is given an older copy of its files gives sequences a second time, and when others
have brought the stream as far again, nothing about its end shows that rows are gone. But the row
that was acknowledged with the highest sequence went with them: at its sequence there is another
message now, with another id or none. So a task notes that row (`Witness`), for each server that it
was told by, and the commit looks at it again.

Files can only be put back while a server does not run, and it has another id after each start. So
nothing that was said by the very server that is asked now needs a look; as a rule that is all there
is. In a cluster another id may be that of another member; there a look finds what it should.

What a look finds:

    the row                     it is there, and so is all that has lower sequences; unless a second
                                attempt of its task has stored it again, at the same sequence by
                                chance: so those of a few other tasks are looked at as well
    another message             the sequence was given twice, and rows are gone
    no message                  limits, a purge, a reader or a later row of its subject may have
                                removed it: that cannot be told, and the next lower one is looked at

Rows without an id are no witnesses.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from jetstream_spark.client.control import MESSAGE_NOT_FOUND, Control
from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import PermissionDeniedError, RequestRefusedError
from jetstream_spark.sink.batch_outcome import RowPlaces
from jetstream_spark.sink.message_ids import id_of_row
from jetstream_spark.sink.stored_ids import ID_HEADER

_log = logging.getLogger("jetstream_spark")
_FOUND_MAX = 4  # of one server, after which no more are looked at
_PREFIX = ID_HEADER.lower() + b":"


@dataclass(frozen=True, slots=True)
class Witness:
    """A row that is stored, as a server said.

    Attributes:
        server: its id, another one after each start.
        sequence: of the row.
        id: under which the row is stored, or was at first.
    """

    server: str
    sequence: int
    id: bytes

    def to_json(self) -> list[Any]:
        """What a ledger entry says of it."""
        return [self.server, self.sequence, self.id.decode("latin-1")]

    @classmethod
    def from_json(cls, said: list[Any]) -> Witness:
        """The witness in a ledger entry.

        Raises:
            ValueError, TypeError, AttributeError: it is none.
        """
        server, sequence, row_id = said
        return cls(str(server), int(sequence), row_id.encode("latin-1"))


class Witnesses:
    """Those of one write: for each server that said that rows are stored, the highest row."""

    def __init__(self) -> None:
        self._highest: dict[str, Witness] = {}

    def note(self, server: str, sequence: int, row_id: bytes) -> None:
        """Note a row that a server says is stored.

        Args:
            server: its id. One that it had before would do for a look, but not for this row to
                speak for others which that server had told of.
        """
        before = self._highest.get(server)
        if sequence and row_id and (before is None or sequence > before.sequence):
            self._highest[server] = Witness(server, sequence, row_id)

    def note_highest(self, server: str, ids: pa.BinaryArray | None, sequences: RowPlaces) -> None:
        """Note the highest of several rows.

        Args:
            server: as for `note`.
            sequences: of the rows, 0 where it is not known.
        """
        if ids is not None and len(sequences):
            place = int(sequences.argmax())
            self.note(server, int(sequences[place]), ids[place].as_py())

    def found(self) -> tuple[Witness, ...]:
        """All of them."""
        return tuple(self._highest.values())


def highest_of_each(witnesses: Iterable[Witness]) -> list[Witness]:
    """The highest witness of each server."""
    return [of_one[0] for of_one in _by_server(witnesses)]


def first_gone(
    control: Control, stream: str, witnesses: Iterable[Witness]
) -> Operation[Witness | None]:
    """Look whether a stream still has what it said; return a witness in whose place is another
    message now, None where nothing shows that rows are gone.

    Of one server's witnesses the highest ones count of which the stream can still tell anything.

    Raises:
        RetryableError: nobody answers within the control's patience.
    """
    for of_one in _by_server(witnesses):
        found = 0
        for witness in of_one:
            try:
                is_there = yield from _is_there(control, stream, witness)
            except PermissionDeniedError as error:
                _log.warning(
                    "whether stream '%s' was brought back from an older copy is not known: %s",
                    stream,
                    error,
                )
                return None
            if is_there is False:
                return witness
            found += bool(is_there)
            if found == _FOUND_MAX:
                break
    return None


def _by_server(witnesses: Iterable[Witness]) -> Iterator[list[Witness]]:
    ordered = sorted(set(witnesses), key=lambda one: (one.server, -one.sequence))
    for _, of_one in groupby(ordered, key=lambda one: one.server):
        yield list(of_one)


def _is_there(control: Control, stream: str, witness: Witness) -> Operation[bool | None]:
    """Whether a row is there, False if another message has its sequence; None if none has."""
    try:
        answer = yield from control.look_up(f"STREAM.MSG.GET.{stream}", {"seq": witness.sequence})
    except RequestRefusedError as error:
        if error.err_code == MESSAGE_NOT_FOUND:
            return None
        raise
    lines = base64.b64decode(answer["message"].get("hdrs", "")).split(b"\r\n")
    ids = [one[len(_PREFIX) :].strip() for one in lines if one.lower().startswith(_PREFIX)]
    return witness.id.strip() in [*ids, *map(id_of_row, ids)]
