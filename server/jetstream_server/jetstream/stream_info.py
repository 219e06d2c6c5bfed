"""StreamInfo as STREAM.CREATE, UPDATE, INFO and LIST show it; they differ in small ways.

CREATE leaves out the domain, INFO adds the cluster, LIST has only the metadata that is stored
(docs/reference/api.md#info-of-streams-and-consumers).
"""

from __future__ import annotations

from typing import Any

from orjson import Fragment

from jetstream_server.jetstream.configs.stream_config import described
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.wire.go_time import format_time


def created_info(stream: Stream, now: int) -> dict[str, Any]:
    """Return what STREAM.CREATE shows."""
    return _info(stream, described(stream.config), stream.state(), {}, now)


def updated_info(stream: Stream, now: int) -> dict[str, Any]:
    """Return what STREAM.UPDATE shows."""
    return _info(stream, described(stream.config), stream.state(), _domain(stream), now)


def listed_info(stream: Stream, now: int) -> dict[str, Any]:
    """Return one entry of STREAM.LIST."""
    config = stream.written_config.of(stream.config)
    return _info(stream, config, stream.state(), _domain(stream), now)


def full_info(
    stream: Stream,
    now: int,
    subjects: dict[str, int] | None = None,
    deleted: list[int] | None = None,
) -> dict[str, Any]:
    """Return what STREAM.INFO shows.

    Args:
        subjects: message counts by subject, when they were asked for.
        deleted: missing sequences, when they were asked for.
    """
    extra = {**_domain(stream), "cluster": {"leader": stream.context.server_name}}
    return _info(stream, described(stream.config), stream.state(subjects, deleted), extra, now)


def _domain(stream: Stream) -> dict[str, Any]:
    return {"domain": stream.context.domain} if stream.context.domain else {}


def _info(
    stream: Stream,
    config: dict[str, Any] | Fragment,
    state: dict[str, Any],
    extra: dict[str, Any],
    now: int,
) -> dict[str, Any]:
    return {
        "config": config,
        "created": format_time(stream.created),
        "state": state,
        **extra,
        **stream.sourcing.info(now),
        "ts": format_time(now),
    }
