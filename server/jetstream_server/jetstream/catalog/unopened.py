"""What is remembered of a stream that trips whoever opens it: by which version of the server.

What is stored trips one start like the other. So once it has tripped two attempts, nothing of the
stream is read any more until another version has come, or somebody removes the file that says so.
"""

from __future__ import annotations

import orjson

from jetstream_server import __version__
from jetstream_server.base.errors import StoreError
from jetstream_server.store.ports import StreamFolder

VERSION = __version__


def note_unopened(folder: StreamFolder, reason: str) -> None:
    """Remember that a stream trips this version."""
    folder.unopened().save(orjson.dumps({"version": VERSION, "reason": reason}))


def unopened(folder: StreamFolder) -> str:
    """Return why this version is not to open a stream; empty if it is to try."""
    try:
        data = folder.unopened().load()
        note = orjson.loads(data or b"null")
    except (StoreError, ValueError):
        return ""  # whatever it said, to try is what would be done without it
    if not isinstance(note, dict) or note.get("version") != VERSION:
        return ""
    text = f"{note.get('reason')}; version {VERSION} has tripped over it before"
    remedy = "start another one, or remove the stream's file 'unopened.json' first"
    return f"{text} and does not open it again: {remedy}"


def forget_unopened(folder: StreamFolder) -> None:
    """A stream was opened, so what is remembered is no longer true."""
    file = folder.unopened()
    try:
        is_there = file.load() is not None
    except StoreError:
        is_there = True
    if is_there:
        file.remove()
