"""One API request, and the table that finds its handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from jetstream_server.base.errors import ApiError
from jetstream_server.core.subscription import Sender

if TYPE_CHECKING:
    from jetstream_server.jetstream.catalog.catalog import Catalog
    from jetstream_server.jetstream.context import Context


@dataclass(slots=True)
class Request:
    """A request as a handler sees it.

    Attributes:
        subject: as received, `$JS.API.` included.
        tokens: tokens after `$JS.API.`, decoded; for `STREAM.INFO.ORDERS` the last is `ORDERS`.
        body: payload bytes.
        headers: raw header block, empty when there is none.
        reply: where the answer goes, empty when nobody asked for one.
        sender: the client, for advisories.
        now: nanoseconds since the epoch.
        answer_headers: header block of the answer; a handler may set it.
    """

    subject: bytes
    tokens: list[str]
    body: bytes
    headers: bytes
    reply: bytes
    sender: Sender | None
    now: int
    answer_headers: bytes = b""


# A handler returns the fields of the response (without `type`), or raises ApiError. It may return
# None when it answers by itself (a status, a stream of messages, silence).
Handler = Callable[["Catalog", Request], "dict[str, Any] | Later | None"]
# What is refused whether or not the account has JetStream raises ApiError here as well.
Check = Callable[["Context", Request], object]


class Later(Protocol):
    """An answer that takes several turns."""

    def go_on(self, finished: Callable[[dict[str, Any] | ApiError], None]) -> None:
        """Work on it, then hand over the fields or the refusal."""
        ...


@dataclass(slots=True)
class Route:
    """Where a subject leads.

    Attributes:
        pattern: tokens after `$JS.API.`, with `*` and a final `>`.
        response: suffix of the response type, after `io.nats.jetstream.api.v1.`.
        handler: what answers.
        zero: fields that error replies of the genuine server carry with their zero value.
        level_first: whether a required API level is checked before the handler runs; a few verbs
            look at their body first, or at nothing at all.
        quiet: whether success is neither counted nor audited.
        silent: whether refusals are not either.
        is_costly: whether it makes, changes or removes files, or lists very many things.
        check: what is checked before an account without JetStream says that it has none; None for
            nothing.
        by_consumer: whether a consumer answers for itself: if it does not exist, nobody answers.
    """

    pattern: tuple[str, ...]
    response: str
    handler: Handler
    zero: dict[str, Any]
    level_first: bool = True
    quiet: bool = False
    silent: bool = False
    is_costly: bool = False
    check: Check | None = None
    by_consumer: bool = False


# The second tokens of the costly verbs.
_COSTLY = frozenset(
    {
        "CREATE",
        "DELETE",
        "DURABLE",
        "LIST",
        "NAMES",
        "PAUSE",
        "PURGE",
        "RESET",
        "RESTORE",
        "SNAPSHOT",
        "UNPIN",
        "UPDATE",
    }
)

ROUTES: list[Route] = []


def route(
    pattern: str,
    response: str,
    zero: dict[str, Any] | None = None,
    *,
    level_first: bool = True,
    quiet: bool = False,
    silent: bool = False,
    check: Check | None = None,
    by_consumer: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a handler for `$JS.API.<pattern>`."""

    def register(handler: Handler) -> Handler:
        tokens = tuple(pattern.split("."))
        is_costly = not _COSTLY.isdisjoint(tokens)
        ROUTES.append(
            Route(
                tokens,
                response,
                handler,
                zero or {},
                level_first,
                quiet,
                silent,
                is_costly,
                check,
                by_consumer,
            )
        )
        return handler

    return register
