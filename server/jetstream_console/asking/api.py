"""Requests of the JetStream API, and their answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from jetstream_console.asking.answers import number, parsed
from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_console.asking.link import ServerLink

_PAGES_MAX = 1_000


class Api:
    """Asks the servers at the other end of a connection.

    Args:
        link: the connection.
    """

    def __init__(self, link: ServerLink) -> None:
        self.link = link
        self._prefix = link.target.api_prefix

    @property
    def foreign_prefix(self) -> str:
        """What comes before the subjects of buckets and object stores that are in another domain;
        empty if they are here."""
        return self._prefix if self.link.target.domain else ""

    @property
    def payload_max(self) -> int:
        """Bytes of the largest message that the servers take; 0 while there is no connection."""
        return self.link.state.max_payload

    async def ask(self, what: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return an answer.

        Args:
            what: such as `STREAM.INFO.ORDERS`.

        Raises:
            AskingError: there is none; the text is in the server's own words.
        """
        payload = json.dumps(body).encode() if body else b""
        return parsed(await self.link.request(f"{self._prefix}.{what}", payload))

    async def ask_all(
        self,
        what: str,
        body: Mapping[str, Any],
        size: Callable[[Mapping[str, Any]], int],
        at_most: int,
    ) -> tuple[list[dict[str, Any]], int]:
        """Return all pages of an answer, and how many entries there are according to the server.

        Args:
            size: how many entries a page has.
            at_most: no further page is asked for once there are this many entries.
        """
        pages: list[dict[str, Any]] = []
        offset = 0
        while len(pages) < _PAGES_MAX:
            page = await self.ask(what, {**body, "offset": offset})
            pages.append(page)
            here, total = size(page), number(page, "total")
            offset += here
            if not here or offset >= min(total, at_most):
                return pages, max(total, offset)
        return pages, offset


def token(name: str) -> str:
    """Return the name of a stream, consumer or bucket, which is one word of a subject.

    Raises:
        RefusedError: it cannot be such a name.
    """
    if not name or any(each in ".*>" or each.isspace() for each in name):
        raise RefusedError(
            f"'{name}' cannot be a name: it has to be one word without '.', '*', '>'."
        )
    return name


def is_absent(error: AskingError) -> bool:
    """Tell whether what was asked for does not exist."""
    return isinstance(error, RefusedError) and error.code == 404
