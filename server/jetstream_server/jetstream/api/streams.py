"""STREAM.CREATE, UPDATE, INFO, LIST, NAMES, DELETE and PURGE (docs/reference/api.md#verbs).

SNAPSHOT and RESTORE are in `snapshots.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from orjson import Fragment

from jetstream_server.core.steps import Stint
from jetstream_server.core.subject import is_valid_subject
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.advisory import publish_stream_action
from jetstream_server.jetstream.api.list_page import PageEntries, page_of
from jetstream_server.jetstream.api.long_requests import answered_in_steps, at_once_or_later
from jetstream_server.jetstream.api.purging import MESSAGES_OF_UNIT, Purging
from jetstream_server.jetstream.api.request import Later, Request, route
from jetstream_server.jetstream.api.request_body import read_body_if_json, read_body_in_steps
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.catalog.listening import listening
from jetstream_server.jetstream.configs.stream_config import SEQUENCE_MAX, StreamConfigRequest
from jetstream_server.jetstream.slices import Sliced
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.stream_info import (
    created_info,
    full_info,
    listed_info,
    updated_info,
)
from jetstream_server.jetstream.streams.reads.look_ahead import COUNTED_AT_ONCE
from jetstream_server.jetstream.streams.reads.subject_page import SubjectPage
from jetstream_server.jetstream.wire.go_json import (
    GoModel,
    Int,
    Uint64,
    encode,
    is_empty_request,
)
from jetstream_server.store.ports import Census

# How many entries one answer holds.
NAMES_MAX = 1024
LIST_MAX = 256
SHOWN_AT_ONCE = LIST_MAX + 1  # ordinary ones take one step, unless they are new
_NEW_AS = 3  # shown in the time of one that is new
BYTES_AS_ONE = 1024  # of an entry as JSON
SUBJECTS_AT_ONCE = 10_000  # looked at in one turn
PURGED_AT_ONCE = 10_000  # messages in memory, likewise
SUBJECTS_MAX = 100_000
SORTED_OF_UNIT = 500  # streams, of which a page is chosen
COMPARED_OF_UNIT = 50  # streams whose subjects are compared with one
TEXTS_OF_UNIT = 1000  # subjects, likewise
CONSUMERS_OF_UNIT = 100  # which may have to follow another config
SEQUENCES_OF_UNIT = 3000  # among which those are looked for that are missing
SEQUENCES_AT_ONCE = 100_000  # likewise, in one turn
# Of the missing sequences in an answer, as text: more would not reach any client, as what waits to
# be read by one has a bound as well.
DELETED_BYTES_MAX = 32 * 1024 * 1024

_PAGE: dict[str, Any] = {"total": 0, "offset": 0, "limit": 0}


class StreamInfoRequest(GoModel):
    """The body of STREAM.INFO."""

    go_name: ClassVar[str] = "JSApiStreamInfoRequest"
    offset: Int = 0
    deleted_details: bool = False
    subjects_filter: str = ""


class StreamListRequest(GoModel):
    """The body of STREAM.LIST and STREAM.NAMES."""

    go_name: ClassVar[str] = "JSApiStreamListRequest"
    offset: Int = 0
    subject: str = ""


class StreamNamesRequest(StreamListRequest):
    """The body of STREAM.NAMES."""

    go_name: ClassVar[str] = "JSApiStreamNamesRequest"


class StreamPurgeRequest(GoModel):
    """The body of STREAM.PURGE."""

    go_name: ClassVar[str] = "JSApiStreamPurgeRequest"
    seq: Uint64 = 0
    filter: str = ""
    keep: Uint64 = 0


@route("STREAM.CREATE.*", "stream_create_response")
def create(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Make a stream; repeating a request with the same config succeeds."""
    return _in_steps(catalog, request, _create(catalog, request))


def _in_steps(
    catalog: Catalog, request: Request, steps: Iterator[dict[str, Any] | None]
) -> dict[str, Any] | Later:
    # What other streams captured of late, or no longer do, has to be taken note of first.
    is_behind = not catalog.note_captured()
    return answered_in_steps(catalog.context, request, steps, takes_turns=is_behind)


def _create(catalog: Catalog, request: Request) -> Iterator[dict[str, Any] | None]:
    body = yield from read_body_in_steps(catalog.context, request, StreamConfigRequest)
    yield None
    if body.name != request.tokens[-1]:
        raise errors.STREAM_MISMATCH()
    if "/" in body.name or "\\" in body.name:
        raise errors.STREAM_NAME_CONTAINS_PATH_SEPARATORS()
    if body.template_owner and not catalog.templates.owns(body.template_owner, body.name):
        raise errors.STREAM_CREATE_FAILED("stream not owned by template")
    config = body.config()
    compared = yield from catalog.compare_subjects(config)
    is_new = not (config.name in catalog.streams or config.name in catalog.offline)
    stream = catalog.create(
        config,
        request.now,
        pedantic=body.pedantic,
        names_storage=b'"storage"' in request.body,
        at_once=False,
        compared=compared,
    )
    yield None
    yield from listening(catalog, stream)
    if is_new:  # it may be among those who listen to that
        publish_stream_action(catalog.context, stream.name, "create", request.now)
    yield {**created_info(stream, request.now), "did_create": True}


@route("STREAM.UPDATE.*", "stream_update_response")
def update(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Change a stream's config."""
    return _in_steps(catalog, request, _update(catalog, request))


def _update(catalog: Catalog, request: Request) -> Iterator[dict[str, Any] | None]:
    body = yield from read_body_in_steps(catalog.context, request, StreamConfigRequest)
    yield None
    name = request.tokens[-1]
    if name in catalog.streams and catalog.streams[name].config.template_owner:
        raise errors.STREAM_INVALID_CONFIG(
            "stream configuration update not allowed on template owned stream"
        )
    if body.template_owner:
        raise errors.STREAM_INVALID_CONFIG("stream configuration update can not set an owner")
    config = body.config()
    foreseen = None
    if name in catalog.streams:
        foreseen = yield from catalog.streams[name].sourcing.foresee(config.sources)
    compared = yield from catalog.compare_subjects(config)
    if name in catalog.streams:
        units = len(catalog.streams[name].consumers) / CONSUMERS_OF_UNIT
        catalog.context.workload.spend(units)
    stream = catalog.update(
        name,
        config,
        request.now,
        pedantic=body.pedantic,
        at_once=False,
        compared=compared,
        foreseen=foreseen,
    )
    yield None
    yield from listening(catalog, stream)
    # Others are told once it listens to its subjects of now: it may be among them.
    publish_stream_action(catalog.context, stream.name, "modify", request.now)
    yield updated_info(stream, request.now)


@route("STREAM.INFO.*", "stream_info_response", _PAGE)
def info(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Show a stream; on request also its subjects and missing sequences."""
    body = read_body_if_json(catalog.context, request, StreamInfoRequest)
    stream = catalog.stream(request.tokens[-1])
    page, subjects = dict(_PAGE), None
    if body.deleted_details:
        _check_deleted(stream)
    is_long = body.subjects_filter and stream.store.state().num_subjects > SUBJECTS_AT_ONCE
    if is_long or (body.deleted_details and _span(stream) > SEQUENCES_AT_ONCE):
        return Sliced(catalog.context.slices, partial(_sliced_info, catalog, request, body))
    if body.subjects_filter:
        counts = stream.store.subject_counts(body.subjects_filter.encode())
        if counts:
            offset = max(body.offset, 0)
            names = sorted(counts)[offset : offset + SUBJECTS_MAX]
            subjects = {name.decode(errors="replace"): counts[name] for name in names}
            page = {"total": len(counts), "offset": offset, "limit": SUBJECTS_MAX}
    deleted = _deleted(stream) if body.deleted_details else None
    return {**page, **full_info(stream, request.now, subjects, deleted)}


def _deleted(stream: Stream) -> list[int]:
    """Return the missing sequences, which are looked for among all."""
    span = _span(stream)
    if not span:
        return []
    stream.context.workload.spend(span // SEQUENCES_OF_UNIT)
    return stream.store.deleted()


def _check_deleted(stream: Stream) -> None:
    """Refuse to list so many sequences that nobody could take the answer; a mirror or a restored
    stream may lack a quintillion."""
    state = stream.store.state()
    if state.num_deleted * (len(str(state.last_seq)) + 1) > DELETED_BYTES_MAX:
        text = f"{state.num_deleted} messages are missing, too many to be listed: "
        raise errors.STREAM_GENERAL_ERROR(text + "ask without deleted_details")


def _span(stream: Stream) -> int:
    """Return among how many sequences some are missing, 0 where none is."""
    state = stream.store.state()
    return state.last_seq - state.first_seq + 1 if state.num_deleted else 0


def _sliced_info(
    catalog: Catalog, request: Request, body: StreamInfoRequest
) -> Iterator[dict[str, Any] | None]:
    """Show a stream with very many subjects or missing sequences as it is at one moment."""
    stream = catalog.stream(request.tokens[-1])
    store, pattern = stream.store, body.subjects_filter.encode()
    gaps = store.gaps()

    def is_prepared() -> bool:
        return (not body.deleted_details or gaps.prepare()) and (
            not pattern or store.prepare_subjects(None, COUNTED_AT_ONCE)
        )

    while not is_prepared():
        yield None
        if catalog.stream(request.tokens[-1]) is not stream:  # raises if it is gone
            raise errors.STREAM_NOT_FOUND()
    answer = full_info(stream, request.now, {"": 0}, [0])  # which hold the places of the others
    parts = gaps.parts() if body.deleted_details else iter(())
    census = store.census() if pattern else Census([], array("Q"))
    offset = max(body.offset, 0)
    page = SubjectPage(census, pattern, offset, SUBJECTS_MAX)
    yield from page.slices()
    texts = []
    for missing in parts:
        if missing:
            texts.append(encode(missing)[1:-1])
        yield None
    state = answer["state"]
    state["subjects"], state["deleted"] = page.counts, Fragment(b"[%b]" % b",".join(texts))
    if not page.counts:
        del state["subjects"]
    if not texts:
        del state["deleted"]
    told = {"total": page.total, "offset": offset, "limit": SUBJECTS_MAX} if page.total else _PAGE
    yield {**told, **answer}


@route("STREAM.NAMES", "stream_names_response", {**_PAGE, "streams": None})
def names(catalog: Catalog, request: Request) -> dict[str, Any]:
    """List the names of streams."""
    body = read_body_if_json(catalog.context, request, StreamNamesRequest)
    found = _names(catalog, body)
    offset = min(max(body.offset, 0), len(found))
    page = found[offset : offset + NAMES_MAX]
    # An empty page is null here, but [] in STREAM.LIST.
    return {"total": len(found), "offset": offset, "limit": NAMES_MAX, "streams": page or None}


@route("STREAM.LIST", "stream_list_response", {**_PAGE, "streams": []})
def listing(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """List streams with their config and state."""
    return at_once_or_later(catalog.context, _listing(catalog, request))


def _listing(catalog: Catalog, request: Request) -> Iterator[dict[str, Any] | None]:
    body = read_body_if_json(catalog.context, request, StreamListRequest)
    found = _names(catalog, body)
    offset = min(max(body.offset, 0), len(found))
    chosen = page_of(found, offset, LIST_MAX, partial(_texts, catalog))
    total, is_cut = len(found), len(chosen) < min(LIST_MAX, len(found) - offset)
    entries, stint = PageEntries(), Stint(SHOWN_AT_ONCE)
    for name in chosen:
        cost = 1 + entries.last_bytes // BYTES_AS_ONE
        stream = catalog.streams.get(name)
        if stream is not None and stream.written_config.is_behind(stream.config):
            cost += _NEW_AS - 1
        if stint.spend(cost):
            yield None
        if name not in catalog.streams and name not in catalog.offline:  # it has gone meanwhile
            total -= 1
        elif reason := catalog.offline_reason(name):
            entries.stopped[name] = reason
        elif not entries.add(listed_info(catalog.streams[name], request.now)):
            is_cut = True
            break
    limit = entries.count if is_cut else LIST_MAX  # clients go on from there
    page = {"total": total, "offset": offset, "limit": limit}
    yield page | entries.fields("streams")


@route("STREAM.DELETE.*", "stream_delete_response")
def delete(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Remove a stream with everything in it."""
    if not is_empty_request(request.body):
        raise errors.NOT_EMPTY_REQUEST()
    return at_once_or_later(catalog.context, _delete(catalog, request), changes=True)


def _delete(catalog: Catalog, request: Request) -> Iterator[dict[str, Any] | None]:
    """Remove a stream, with pauses if it has very many consumers."""
    yield from catalog.delete_in_steps(request.tokens[-1], request.now)
    yield {"success": True}


@route("STREAM.PURGE.*", "stream_purge_response", {"purged": 0})
def purge(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Remove messages: all, of a subject, below a sequence, all but the newest."""
    body = read_body_if_json(catalog.context, request, StreamPurgeRequest)
    if body.seq and body.keep:
        raise errors.BAD_REQUEST()
    stream = catalog.stream(request.tokens[-1])
    if body.seq > SEQUENCE_MAX:
        raise errors.STREAM_PURGE_FAILED(
            f"sequence is too large, maximum allowed is {SEQUENCE_MAX}"
        )
    pattern = body.filter.encode()
    # For a purge below a sequence, each block has to be asked how many of each subject go; and in
    # memory, every message is freed by itself.
    is_all = body.seq <= 1 or body.seq > stream.store.last_seq
    is_long = stream.config.is_memory and stream.store.state().messages > PURGED_AT_ONCE
    is_quick = is_all and not is_long
    if not pattern and not body.keep and is_quick:
        purged = stream.purge(pattern, body.seq, 0, request.now)
        if stream.config.is_memory:
            catalog.context.workload.spend(purged // MESSAGES_OF_UNIT)
        return {"success": True, "purged": purged}
    purging = Purging(stream, pattern, body.seq, body.keep)
    done = purging.begin(request.now)
    return purging if done is None else {"success": True, "purged": done}


def _texts(catalog: Catalog, name: str) -> int:
    """Return how many texts the config of a stream lists."""
    stream = catalog.streams.get(name)
    if stream is None:
        return 0
    config = stream.config
    origins = sum(1 + len(each.subject_transforms) for each in config.sources)
    return len(config.subjects) + len(config.metadata) + 5 * origins


def _names(catalog: Catalog, body: StreamListRequest) -> list[str]:
    units = len(catalog.streams) / SORTED_OF_UNIT
    if body.subject:
        if not is_valid_subject(body.subject.encode()):
            return []
        compared = sum(len(stream.config.subjects) for stream in catalog.streams.values())
        units += len(catalog.streams) / COMPARED_OF_UNIT + compared / TEXTS_OF_UNIT
    catalog.context.workload.spend(units)
    return catalog.names(body.subject)
