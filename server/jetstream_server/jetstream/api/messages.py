"""STREAM.MSG.GET and STREAM.MSG.DELETE (docs/reference/streams.md#reading-and-removing).

A successful MSG.GET is neither counted nor audited, a failed one is.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, ClassVar

from jetstream_server.core.subject import is_literal, is_valid_subject
from jetstream_server.core.workload import SUBJECTS_OF_UNIT, UNITS_OF_TURN
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.api.request import Later, Request, route
from jetstream_server.jetstream.api.request_body import read_body
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.slices import Sliced
from jetstream_server.jetstream.streams.reads.look_ahead import look_ahead
from jetstream_server.jetstream.wire.go_json import (
    GoModel,
    Int,
    Time,
    Uint64,
    is_empty_request,
)
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.store.ports import MessageStore, StoredMessage

ERASED_BYTES_OF_UNIT = 64 * 1024  # of the block of an erased message


class MessageGetRequest(GoModel):
    """The body of MSG.GET; it is shared with DIRECT.GET, which knows more selectors."""

    go_name: ClassVar[str] = "JSApiMsgGetRequest"
    seq: Uint64 = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: Int = 0
    max_bytes: Int = 0
    start_time: Time | None = None
    multi_last: list[str] = []  # noqa: RUF012 - a pydantic field, not a class variable
    up_to_seq: Uint64 = 0
    up_to_time: Time | None = None
    no_hdr: bool = False


class MessageDeleteRequest(GoModel):
    """The body of MSG.DELETE."""

    go_name: ClassVar[str] = "JSApiMsgDeleteRequest"
    seq: Uint64 = 0
    no_erase: bool = False


@route("STREAM.MSG.GET.*", "stream_msg_get_response", quiet=True)
def get(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Return one stored message; what takes long is looked for in slices."""
    if is_empty_request(request.body):
        raise errors.BAD_REQUEST()
    body = read_body(catalog.context, request, MessageGetRequest)
    _check_selectors(body)
    store = catalog.stream(request.tokens[-1]).store
    search = None
    if body.next_by_subj:
        search = _search(catalog, request.tokens[-1], body)
    elif not is_literal(body.last_by_subj.encode()):
        search = _search_last(catalog, request.tokens[-1], body)
    if search is not None:
        if (found := next(search)) is not None:
            return found
        catalog.context.workload.spend(UNITS_OF_TURN)
        return Sliced(catalog.context.slices, lambda: search)
    message = _find(store, body)
    if message is None:
        raise errors.NO_MESSAGE_FOUND()
    return {"message": _described(message, body.no_hdr)}


@route("STREAM.MSG.DELETE.*", "stream_msg_delete_response")
def delete(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Remove one stored message, overwriting its bytes unless `no_erase`."""
    if is_empty_request(request.body):
        raise errors.BAD_REQUEST()
    body = read_body(catalog.context, request, MessageDeleteRequest)
    stream = catalog.stream(request.tokens[-1])
    erased_with = 0 if body.no_erase else stream.store.erased_with(body.seq)
    stream.delete_message(body.seq, not body.no_erase, request.now)
    catalog.context.workload.spend(erased_with // ERASED_BYTES_OF_UNIT)
    return {"success": True}


def _check_selectors(body: MessageGetRequest) -> None:
    selectors = (body.seq, body.last_by_subj, body.next_by_subj, body.start_time)
    if (
        all(selector in (0, "", None) for selector in selectors)
        or body.batch > 0
        or body.max_bytes > 0
        or (body.seq and body.last_by_subj)
        or (body.last_by_subj and body.next_by_subj)
        or (body.start_time is not None and (body.seq or body.last_by_subj))
    ):
        raise errors.BAD_REQUEST()


def _search(
    catalog: Catalog, name: str, body: MessageGetRequest
) -> Iterator[dict[str, Any] | None]:
    """Look for the next message of a subject, a block with each step.

    No such message can appear where it has already looked, so what it finds is the next one at that
    moment.
    """
    pattern = body.next_by_subj.encode()
    if not is_valid_subject(pattern):
        raise errors.NO_MESSAGE_FOUND()
    stream = catalog.stream(name)
    store, sequence = stream.store, body.seq
    wanted = store.filter([pattern])
    if body.start_time is not None:
        sequence = store.sequence_at(body.start_time)
    while True:
        window = store.window(wanted, sequence, 1, 0)
        if window.sequences:
            message = store.load(window.sequences[0])
            assert message is not None, "it is in the window"
            yield {"message": _described(message, body.no_hdr)}
        if window.next_seq > store.last_seq:
            raise errors.NO_MESSAGE_FOUND()
        sequence = window.next_seq
        yield None
        if catalog.stream(name) is not stream:  # raises if it is gone
            raise errors.STREAM_NOT_FOUND()


def _search_last(
    catalog: Catalog, name: str, body: MessageGetRequest
) -> Iterator[dict[str, Any] | None]:
    """Look for the newest message of many subjects, with pauses if there are very many of them."""
    pattern = body.last_by_subj.encode()
    if not is_valid_subject(pattern):
        raise errors.NO_MESSAGE_FOUND()
    stream = catalog.stream(name)
    store = stream.store
    wanted = store.filter([pattern])
    for _ in look_ahead(store, wanted):
        yield None
        if catalog.stream(name) is not stream:  # raises if it is gone
            raise errors.STREAM_NOT_FOUND()
    message = store.load_last(wanted)
    catalog.context.workload.spend(store.state().num_subjects // SUBJECTS_OF_UNIT)
    if message is None:
        raise errors.NO_MESSAGE_FOUND()
    yield {"message": _described(message, body.no_hdr)}


def _find(store: MessageStore, body: MessageGetRequest) -> StoredMessage | None:
    pattern = body.last_by_subj.encode()
    if pattern and not is_valid_subject(pattern):
        return None
    if pattern:
        return store.load_last(store.filter([pattern]))
    start = body.seq
    if body.start_time is not None:
        start = store.sequence_at(body.start_time)
    if body.start_time is not None:
        return store.load_next(None, start)
    return store.load(start)


def _described(message: StoredMessage, no_headers: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "subject": message.subject.decode(errors="replace"),
        "seq": message.sequence,
    }
    if message.headers and not no_headers:
        described["hdrs"] = b64encode(message.headers).decode()
    if message.payload:
        described["data"] = b64encode(message.payload).decode()
    described["time"] = format_time(message.timestamp)
    return described
