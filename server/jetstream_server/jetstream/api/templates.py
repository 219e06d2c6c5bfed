"""STREAM.TEMPLATE.CREATE, INFO, NAMES and DELETE (see `stream_template.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

from jetstream_server.jetstream import errors
from jetstream_server.jetstream.api.request import Request, route
from jetstream_server.jetstream.api.request_body import read_body
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.catalog.stream_template import StreamTemplate, StreamTemplateConfig
from jetstream_server.jetstream.wire.go_json import GoModel, Int, is_empty_request

# How many names one answer holds.
NAMES_MAX = 1024


class StreamTemplateNamesRequest(GoModel):
    """The body of STREAM.TEMPLATE.NAMES."""

    go_name: ClassVar[str] = "JSApiStreamTemplateNamesRequest"
    offset: Int = 0


@route("STREAM.TEMPLATE.CREATE.*", "stream_template_create_response")
def create(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Make a template."""
    body = read_body(catalog.context, request, StreamTemplateConfig)
    if body.name != request.tokens[-1]:
        raise errors.TEMPLATE_NAME_NOT_MATCH_SUBJECT()
    return _described(catalog.templates.create(body))


@route("STREAM.TEMPLATE.INFO.*", "stream_template_info_response")
def info(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Show a template and the names of its streams."""
    if not is_empty_request(request.body):
        raise errors.NOT_EMPTY_REQUEST()
    return _described(catalog.templates.template(request.tokens[-1]))


@route(
    "STREAM.TEMPLATE.NAMES",
    "stream_template_names_response",
    {"total": 0, "offset": 0, "limit": 0, "streams": None},
)
def names(catalog: Catalog, request: Request) -> dict[str, Any]:
    """List the names of templates, under the key that the genuine server used."""
    body = read_body(catalog.context, request, StreamTemplateNamesRequest)
    found = catalog.templates.names()
    offset = min(max(body.offset, 0), len(found))
    page = found[offset : offset + NAMES_MAX]
    return {"total": len(found), "offset": offset, "limit": NAMES_MAX, "streams": page}


@route("STREAM.TEMPLATE.DELETE.*", "stream_template_delete_response")
def delete(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Remove a template with its streams."""
    if not is_empty_request(request.body):
        raise errors.NOT_EMPTY_REQUEST()
    catalog.templates.delete(request.tokens[-1], request.now)
    return {"success": True}


def _described(template: StreamTemplate) -> dict[str, Any]:
    return {"config": template.config.to_wire(), "streams": template.streams()}
