"""Answers of very many megabytes: lists of streams that say as much of themselves as they may."""

from __future__ import annotations

import contextlib
from urllib.error import HTTPError
from urllib.request import urlopen

from benchmarks.stall.crowds import readers
from benchmarks.stall.inputs import HTTP_PORT, TIMEOUT_S, Act, Input, repeatedly, stream
from benchmarks.wire import LoadError, Wire

_STREAMS, _CHARACTERS = 255, 127_000
_ASKED = f"http://127.0.0.1:{HTTP_PORT}/jsz?streams=1&config=1&consumers=1&limit=1000"


def _described(character: str) -> Act:
    """Make streams with metadata of so many characters, all of them this one."""

    def prepare(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            for number in range(_STREAMS):
                metadata = {"a": character * _CHARACTERS}
                wire.api(*stream(f"S{number}", storage="memory", metadata=metadata))

    return prepare


def _list(port: int) -> None:
    """Ask for three lists in one write; who asks may be cut off as too slow."""
    with contextlib.suppress(LoadError, ConnectionError):
        repeatedly("STREAM.LIST", b"", 3)(port)


def _list_audited(port: int) -> None:
    with readers(port, b"SUB $JS.EVENT.ADVISORY.API 1\r\n"):
        _list(port)


def _ask_monitoring(port: int) -> None:
    for _ in range(3):
        with contextlib.suppress(HTTPError), urlopen(_ASKED, timeout=TIMEOUT_S) as answer:
            while answer.read(1 << 20):
                pass


_ESCAPED = _described("<")

LONG_LISTS = [
    Input("3 lists of 255 streams with metadata of 127 KB", _list, _described("x")),
    Input("3 lists of 255 streams with metadata of 127 KB to escape", _list, _ESCAPED),
    Input("the same with a listener to what is asked for", _list_audited, _ESCAPED),
    Input(
        "3 questions to monitoring for 255 streams with metadata of 127 KB to escape",
        _ask_monitoring,
        _ESCAPED,
        config=f"http_port: {HTTP_PORT}\n",
    ),
]
