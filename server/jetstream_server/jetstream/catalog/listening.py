"""A stream of many subjects begins to listen to them, and to copy from many sources, some in each
step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.core.steps import InSteps
from jetstream_server.jetstream import errors

if TYPE_CHECKING:
    from jetstream_server.jetstream.catalog.catalog import Catalog
    from jetstream_server.jetstream.stream import Stream

_NOTED_AT_ONCE = 1000  # subjects of a new stream


def listening(catalog: Catalog, stream: Stream) -> InSteps[None]:
    """Have a stream listen to all its subjects and sources, before anybody is told that it does.

    Raises:
        ApiError: it is gone meanwhile, or the disk would not have it.
    """
    while not stream.subscribe_more():
        yield
    while not stream.sourcing.follow_more():
        yield
    if len(stream.config.subjects) > _NOTED_AT_ONCE:
        yield
        while not catalog.note_captured():
            yield
    if catalog.stream(stream.name) is not stream:
        raise errors.STREAM_NOT_FOUND()
