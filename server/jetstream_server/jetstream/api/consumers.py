"""The CONSUMER verbs: CREATE, DURABLE.CREATE, INFO, LIST, NAMES, DELETE, PAUSE, UNPIN, RESET.

MSG.NEXT is not here: it is a subscription of each pull consumer, so that whoever asks a consumer
that does not exist is told that there are no responders. Order of checks:
docs/reference/api.md#order-of-checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field

from jetstream_server.base.errors import StoreError
from jetstream_server.core.provenance import is_from_server, is_own_subject
from jetstream_server.core.steps import Stint
from jetstream_server.core.workload import SUBJECTS_OF_UNIT
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.api.list_page import PageEntries, page_of
from jetstream_server.jetstream.api.long_requests import at_once_or_later, is_long
from jetstream_server.jetstream.api.request import Later, Request, route
from jetstream_server.jetstream.api.request_body import (
    read_body,
    read_body_if_json,
    read_body_in_steps,
)
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.consumer_checks import check_group, check_replicas
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.consumers.consumer_creation import (
    ComparedFilters,
    compare_filters,
    create_consumer,
    look_ahead_of_start,
    pause_consumer,
    reset_consumer,
)
from jetstream_server.jetstream.consumers.consumer_info import pause_left_ns
from jetstream_server.jetstream.consumers.halted_consumer import HaltedConsumer
from jetstream_server.jetstream.consumers.memory_ahead import memory_for
from jetstream_server.jetstream.consumers.origin_consumer import (
    check_identity,
    stream_identity,
    suited,
    take_over,
)
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.origins.feed import IDENTITY
from jetstream_server.jetstream.ports import StreamConsumer
from jetstream_server.jetstream.required_level import check_required_level
from jetstream_server.jetstream.slices import Sliced
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.messages.publish_headers import has_header
from jetstream_server.jetstream.wire.go_json import (
    Enum,
    GoModel,
    Int,
    Time,
    Uint64,
    decode,
    is_empty_request,
)
from jetstream_server.jetstream.wire.go_time import ZERO_TEXT, format_time
from jetstream_server.protocol import headers as header_block

# How many entries one answer holds.
NAMES_MAX = 1024
LIST_MAX = 256
SORTED_OF_UNIT = 200  # consumers, of which a page is chosen
SHOWN_AT_ONCE = 64
BYTES_AS_ONE = 4096  # of an entry as JSON
SUBJECTS_AT_ONCE = 200_000  # for a filter, in a few milliseconds
FILTERS_AT_ONCE = 1000  # sorted into literals and others

_PAGE: dict[str, Any] = {"total": 0, "offset": 0, "limit": 0, "consumers": []}


class CreateConsumerRequest(GoModel):
    """The body of CONSUMER.CREATE and DURABLE.CREATE."""

    go_name: ClassVar[str] = "CreateConsumerRequest"
    stream_name: str = ""
    config: ConsumerConfig = Field(default_factory=ConsumerConfig.model_construct)
    action: Annotated[str, Enum(("", "create", "update"), "unknown consumer action: %s")] = ""
    pedantic: bool = False


class ConsumerListRequest(GoModel):
    """The body of CONSUMER.LIST and CONSUMER.NAMES."""

    go_name: ClassVar[str] = "JSApiConsumersRequest"
    offset: Int = 0


class ConsumerPauseRequest(GoModel):
    """The body of CONSUMER.PAUSE."""

    go_name: ClassVar[str] = "JSApiConsumerPauseRequest"
    pause_until: Time | None = None


class ConsumerUnpinRequest(GoModel):
    """The body of CONSUMER.UNPIN."""

    go_name: ClassVar[str] = "JSApiConsumerUnpinRequest"
    group: str = ""


class ConsumerResetRequest(GoModel):
    """The body of CONSUMER.RESET."""

    go_name: ClassVar[str] = "JSApiConsumerResetRequest"
    seq: Uint64 = 0


# -- making --------------------------------------------------------------------------------------


def _read_create(context: Context, request: Request) -> CreateConsumerRequest:
    body = read_body(context, request, CreateConsumerRequest)
    check_required_level(request.headers)
    return body


_CREATE: Any = {"level_first": False, "check": _read_create}


@route("CONSUMER.DURABLE.CREATE.*.*", "consumer_create_response", **_CREATE)
def create_durable(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Make a durable consumer, the older way."""

    def chosen(body: CreateConsumerRequest) -> ConsumerConfig:
        _check_stream(body, request.tokens[3])
        _check_separators(request.tokens[4])
        name, config = request.tokens[4], body.config
        if not config.durable_name:
            raise errors.CONSUMER_DURABLE_NAME_NOT_SET()
        if config.durable_name != name:
            raise errors.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT()
        return config.model_copy(update={"name": name})

    return _create(catalog, request, chosen)


@route("CONSUMER.CREATE.*", "consumer_create_response", **_CREATE)
def create_unnamed(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Make a consumer that the subject does not name: an ephemeral one, the older way."""

    def chosen(body: CreateConsumerRequest) -> ConsumerConfig:
        _check_stream(body, request.tokens[2])
        if body.config.durable_name:
            raise errors.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME()
        _check_separators(body.config.name)
        return body.config

    return _create(catalog, request, chosen)


@route("CONSUMER.CREATE.*.*", "consumer_create_response", **_CREATE)
@route("CONSUMER.CREATE.*.*.>", "consumer_create_response", **_CREATE)
def create_named(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Make or change a consumer; the name in the subject wins over the one in the body."""

    def chosen(body: CreateConsumerRequest) -> ConsumerConfig:
        _check_stream(body, request.tokens[2])
        _check_separators(request.tokens[3])
        name, config = request.tokens[3], body.config
        if config.durable_name and config.durable_name != name:
            raise errors.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT()
        filter_subject = ".".join(request.tokens[4:])
        if filter_subject:
            if config.filter_subjects:
                raise errors.CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED()
            if config.filter_subject != filter_subject:
                raise errors.CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH()
        return config.model_copy(update={"name": name})

    return _create(catalog, request, chosen)


def _check_stream(body: CreateConsumerRequest, stream: str) -> None:
    if body.stream_name != stream:
        raise errors.STREAM_MISMATCH()


def _check_separators(name: str) -> None:
    # Everything else that a name may not contain is checked later; the name that loses is never
    # checked.
    if "/" in name or "\\" in name:
        raise errors.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS()


def _create(
    catalog: Catalog, request: Request, chosen: Callable[[CreateConsumerRequest], ConsumerConfig]
) -> dict[str, Any] | Later:
    """Make a consumer; in slices, if the request is long, or very much has to be looked at first.

    Args:
        chosen: returns the config, with the name that counts, or refuses the request.
    """
    if is_long(request):
        work = partial(_read_and_create, catalog, request, chosen)
        return Sliced(catalog.context.slices, work)
    body = _read_create(catalog.context, request)
    return at_once_or_later(catalog.context, _creation(catalog, request, body, chosen(body)))


def _read_and_create(
    catalog: Catalog, request: Request, chosen: Callable[[CreateConsumerRequest], ConsumerConfig]
) -> Iterator[dict[str, Any] | None]:
    body = yield from read_body_in_steps(catalog.context, request, CreateConsumerRequest)
    check_required_level(request.headers)
    config = chosen(body)
    yield None
    yield from _creation(catalog, request, body, config)


def _creation(
    catalog: Catalog, request: Request, body: CreateConsumerRequest, config: ConsumerConfig
) -> Iterator[dict[str, Any] | None]:
    """Make a consumer, with pauses if very much has to be looked at first."""
    compared, memory = None, None
    stream = catalog.streams.get(body.stream_name)  # if it is missing, that is refused in due order
    if stream is not None and not stream.store.offline:
        # Holding the set keeps what is found out about it.
        filters = config.filters
        wanted = stream.store.filter(filters) if filters else None
        has_paused = len(filters) > FILTERS_AT_ONCE
        if has_paused:
            yield None
        try:
            for _ in look_ahead_of_start(stream, config, wanted):
                has_paused = True
                yield None
        except StoreError:
            if catalog.streams.get(body.stream_name) is stream:
                raise  # else it was deleted meanwhile, and its store answers nobody
        if has_paused:
            yield None
        if config.deliver_policy == "last_per_subject":
            memory = yield from memory_for(stream.store.state().num_subjects)
        # Others may have been made meanwhile.
        while stream := catalog.streams.get(body.stream_name):
            compared = yield from compare_filters(stream, config)
            if catalog.streams.get(body.stream_name) is stream:
                break
    del memory  # the last sequences need it now
    answer = _create_now(catalog, request, body, config, compared)
    has_filter = bool(config.filter_subjects or config.filter_subject)
    if stream is not None and (has_filter or config.deliver_policy == "last_per_subject"):
        catalog.context.workload.spend(stream.store.state().num_subjects // SUBJECTS_OF_UNIT)
    yield answer


def _create_now(
    catalog: Catalog,
    request: Request,
    body: CreateConsumerRequest,
    config: ConsumerConfig,
    compared: ComparedFilters | None,
) -> dict[str, Any]:
    bounds = catalog.consumer_bounds()
    check_replicas(config, bounds)
    if is_own_subject(config.deliver_subject.encode()) and not is_from_server(request.sender):
        # Whoever listens there would take it for the consumer of a mirror or source.
        raise errors.CONSUMER_INVALID_DELIVER_SUBJECT()
    stream = catalog.stream(body.stream_name)
    if is_for_copying := config.direct or config.sourcing:
        check_identity(stream, request.headers)
        config = suited(stream, config)
    consumer = create_consumer(
        stream,
        config,
        request.now,
        action=body.action,
        pedantic=body.pedantic,
        bounds=bounds,
        compared=compared,
    )
    if is_for_copying:
        take_over(consumer, request.now)
        request.answer_headers = _identity_block(stream)
    return consumer.info(request.now)


def _identity_block(stream: Stream) -> bytes:
    return header_block.build([(IDENTITY, stream_identity(stream))])


# -- looking -------------------------------------------------------------------------------------


def _check_info(context: Context, request: Request) -> None:
    if not is_empty_request(request.body):
        raise errors.NOT_EMPTY_REQUEST()
    check_required_level(request.headers)


@route("CONSUMER.INFO.*.*", "consumer_info_response", level_first=False, check=_check_info)
def info(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Show a consumer."""
    _check_info(catalog.context, request)
    return at_once_or_later(catalog.context, _info(catalog, request))


def _info(catalog: Catalog, request: Request) -> Iterator[dict[str, Any] | None]:
    """Show a consumer, with pauses if very many subjects have come since the last look."""
    for _ in _new_subjects(_find(catalog, request)):
        yield None
    yield _find(catalog, request).info(request.now)


def _new_subjects(consumer: StreamConsumer) -> Iterator[None]:
    """Look at the subjects that have come since a consumer did: very many one slice a step."""
    if not isinstance(consumer, Consumer):
        return
    names_max = SUBJECTS_AT_ONCE // LIST_MAX  # as others may be asked about in the same turn
    while not consumer.progress.cursor.look_ahead(names_max):
        yield
        names_max = SUBJECTS_AT_ONCE


@route("CONSUMER.NAMES.*", "consumer_names_response", _PAGE)
def names(catalog: Catalog, request: Request) -> dict[str, Any]:
    """List the names of a stream's consumers."""
    consumers, page = _page(catalog, request, NAMES_MAX)
    return page | {"consumers": [consumer.name for consumer in consumers]}


@route("CONSUMER.LIST.*", "consumer_list_response", _PAGE)
def listing(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """List a stream's consumers with their config and state."""
    return at_once_or_later(catalog.context, _listing(catalog, request))


def _listing(catalog: Catalog, request: Request) -> Iterator[dict[str, Any] | None]:
    """List consumers, with pauses as `_info` has."""
    consumers, page = _page(catalog, request, LIST_MAX, _texts)
    has_paused = False
    for consumer in consumers:
        for _ in _new_subjects(consumer):
            has_paused = True
            yield None
    if has_paused:  # meanwhile some may have come or gone
        consumers, page = _page(catalog, request, LIST_MAX, _texts)
    is_cut = len(consumers) < min(LIST_MAX, page["total"] - page["offset"])
    entries, stint = PageEntries(), Stint(SHOWN_AT_ONCE)
    for consumer in consumers:
        name = consumer.name
        if stint.spend(consumer.info_cost + entries.last_bytes // BYTES_AS_ONE):
            yield None
        found = catalog.stream(request.tokens[2]).consumers.get(name)
        if found is None:  # it has gone meanwhile
            page["total"] -= 1
        elif found.outage:
            entries.stopped[name] = found.outage
        elif not entries.add(_listed(found, request.now)):
            is_cut = True
            break
    if is_cut:
        page["limit"] = entries.count  # clients go on from there
    yield page | entries.fields("consumers")


def _listed(consumer: StreamConsumer, now: int) -> dict[str, Any]:
    """Return an entry of a list: it shows the config as it is stored, without what the server adds
    elsewhere."""
    entry = consumer.info(now)
    metadata = entry["config"].get("metadata", {})
    for key in ("_nats.level", "_nats.ver"):
        metadata.pop(key, None)
    return entry


def _texts(consumer: StreamConsumer) -> int:
    """Return how many texts and numbers the config of a consumer lists."""
    if not isinstance(consumer, Consumer):
        return 0
    config = consumer.config
    lists = (config.filter_subjects, config.metadata, config.backoff, config.priority_groups)
    return sum(map(len, lists))


def _page(
    catalog: Catalog,
    request: Request,
    limit: int,
    texts: Callable[[StreamConsumer], int] = lambda consumer: 0,
) -> tuple[Sequence[StreamConsumer], dict[str, Any]]:
    body = read_body_if_json(catalog.context, request, ConsumerListRequest)
    found = sorted(_visible(catalog.stream(request.tokens[2])), key=lambda each: each.name)
    catalog.context.workload.spend(len(found) / SORTED_OF_UNIT)
    offset = min(max(body.offset, 0), len(found))
    page = {"total": len(found), "offset": offset, "limit": limit}
    return page_of(found, offset, limit, texts), page


def _visible(stream: Stream) -> list[StreamConsumer]:
    return [consumer for consumer in stream.consumers.values() if not consumer.internal]


def _find(catalog: Catalog, request: Request) -> Consumer:
    consumer = catalog.stream(request.tokens[2]).consumers.get(request.tokens[3])
    if consumer is not None and consumer.outage:
        raise errors.CONSUMER_OFFLINE_REASON(consumer.outage)
    if not isinstance(consumer, Consumer):
        raise errors.CONSUMER_NOT_FOUND()
    return consumer


# -- changing ------------------------------------------------------------------------------------


@route("CONSUMER.DELETE.*.*", "consumer_delete_response")
def delete(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Remove a consumer."""
    if not is_empty_request(request.body):
        raise errors.NOT_EMPTY_REQUEST()
    consumer = catalog.stream(request.tokens[2]).consumers.get(request.tokens[3])
    if not isinstance(consumer, HaltedConsumer):  # that one can be removed, too
        consumer = _find(catalog, request)
    consumer.delete(request.now)
    return {"success": True}


def _read_pause(context: Context, request: Request) -> ConsumerPauseRequest:
    body = read_body_if_json(context, request, ConsumerPauseRequest)
    check_required_level(request.headers)
    return body


@route(
    "CONSUMER.PAUSE.*.*",
    "consumer_pause_response",
    {"paused": False, "pause_until": ZERO_TEXT},
    level_first=False,
    check=_read_pause,
)
def pause(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Hold delivery back until a time; no time, or one that has passed, resumes it."""
    body = _read_pause(catalog.context, request)
    consumer = _find(catalog, request)
    pause_consumer(consumer, body.pause_until, request.now)
    until = body.pause_until
    answer: dict[str, Any] = {
        "paused": consumer.is_paused,
        "pause_until": ZERO_TEXT if until is None else format_time(int(until)),
    }
    if until is not None and consumer.is_paused:
        answer["pause_remaining"] = pause_left_ns(consumer.paused_until, request.now)
    return answer


def _read_unpin(context: Context, request: Request) -> ConsumerUnpinRequest:
    if not request.body:
        raise errors.INVALID_JSON("unexpected end of JSON input")
    body = decode(request.body, ConsumerUnpinRequest, strict=False, spend=context.workload.spend)
    if not body.group:
        raise errors.INVALID_JSON("consumer group not specified")
    check_group(body.group)
    return body


@route("CONSUMER.UNPIN.*.*", "consumer_unpin_response", check=_read_unpin)
def unpin(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Have another client of a priority group chosen."""
    body = _read_unpin(catalog.context, request)
    consumer = _find(catalog, request)
    if body.group not in consumer.config.priority_groups:
        raise errors.CONSUMER_INVALID_PRIORITY_GROUP()
    consumer.pull.unpin("admin", request.now)
    return {}


@route(
    "CONSUMER.RESET.*.*",
    "consumer_reset_response",
    {"reset_seq": 0},
    level_first=False,
    quiet=True,
    silent=True,
    by_consumer=True,
)
def reset(catalog: Catalog, request: Request) -> dict[str, Any] | None:
    """Start a consumer over; for one that does not exist there is no answer."""
    stream = catalog.streams.get(request.tokens[2])
    consumer = stream.consumers.get(request.tokens[3]) if stream is not None else None
    if not isinstance(consumer, Consumer):
        return None
    check_required_level(request.headers)
    body = decode(
        request.body, ConsumerResetRequest, strict=False, spend=catalog.context.workload.spend
    )
    sequence = reset_consumer(consumer, body.seq, request.now)
    consumer.shared.is_reset_by_server = is_from_server(request.sender)
    if has_header(request.headers, IDENTITY):
        request.answer_headers = _identity_block(consumer.stream)
    return consumer.info(request.now) | {"reset_seq": sequence}
