"""The body of an API request, read as the server's configuration wants it.

A field that nobody knows is most often a misspelt one, so it is refused. Where the configuration
says `strict: false` the request is served without it, and the operator is told.
"""

from __future__ import annotations

from collections.abc import Generator

from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.api.request import Request
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.wire.go_json import (
    Model,
    decode,
    decode_in_steps,
    looks_like_json,
)


def read_body(context: Context, request: Request, model: type[Model]) -> Model:
    """Return the body of a request.

    Raises:
        ApiError: 10025 with the text of the first mistake.
    """
    return _read(context, request, request.body, model)


def read_body_in_steps(
    context: Context, request: Request, model: type[Model]
) -> Generator[None, None, Model]:
    """Do as `read_body` does, with pauses in which others have their turn."""
    body = request.body
    try:
        return (yield from decode_in_steps(body, model, spend=context.workload.spend))
    except ApiError as error:
        if context.is_strict:
            raise
        _warn(context, request, error)
        return (yield from decode_in_steps(body, model, strict=False, spend=context.workload.spend))


def read_body_if_json(context: Context, request: Request, model: type[Model]) -> Model:
    """Return the body; the model's zero value if it is neither an object nor a list.

    Raises:
        ApiError: 10025 with the text of the first mistake.
    """
    body = request.body if looks_like_json(request.body) else b""
    return _read(context, request, body, model)


def _read(context: Context, request: Request, body: bytes, model: type[Model]) -> Model:
    spend = context.workload.spend
    if context.is_strict:
        return decode(body, model, spend=spend)
    try:
        return decode(body, model, spend=spend)
    except ApiError as error:
        _warn(context, request, error)
        return decode(body, model, strict=False, spend=spend)


def _warn(context: Context, request: Request, error: ApiError) -> None:
    reason = error.description.removeprefix("invalid JSON: ")
    subject = request.subject.decode(errors="replace")
    context.log("WRN", f"Invalid JetStream request '{context.account} > {subject}': {reason}")
