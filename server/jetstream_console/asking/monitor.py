"""The monitoring of one server over HTTP, for what the protocol does not tell clients."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from jetstream_console.asking.answers import Answer, number, parts, text
from jetstream_console.asking.errors import RefusedError, UnreachableError

_ANSWER_BYTES_MAX = 32 << 20
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Vitals:
    """What `/varz` and `/healthz` say about a server.

    Attributes:
        health: `ok`, or what is wrong.
        memory: bytes.
        cpu: in percent of one core.
        slow_consumers: connections that were too slow, since the start.
    """

    name: str
    version: str
    uptime: str
    health: str
    connections: int
    subscriptions: int
    in_messages: int
    out_messages: int
    in_bytes: int
    out_bytes: int
    memory: int
    cpu: float
    slow_consumers: int


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """A client of the server."""

    cid: int
    name: str
    account: str
    user: str
    place: str
    language: str
    uptime: str
    idle: str
    rtt: str
    subscriptions: int
    pending_bytes: int
    in_messages: int
    out_messages: int
    in_bytes: int
    out_bytes: int


@dataclass(frozen=True, slots=True)
class Connections:
    """Connections from an offset on.

    Attributes:
        total: how many there are.
    """

    rows: tuple[ConnectedClient, ...]
    total: int


class Monitor:
    """Asks the monitoring of a server.

    Args:
        address: such as `http://127.0.0.1:8222`.
    """

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        # Proxies set in the environment are meant for the internet.
        self._http = httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def vitals(self) -> Vitals:
        """Return how the server is doing.

        Raises:
            AskingError: the monitoring did not answer.
        """
        varz = await self.varz()
        health = await self._get("/healthz", {})
        cpu = varz.get("cpu")
        return Vitals(
            name=text(varz, "server_name"),
            version=text(varz, "version"),
            uptime=text(varz, "uptime"),
            health=text(health, "error") or text(health, "status"),
            connections=number(varz, "connections"),
            subscriptions=number(varz, "subscriptions"),
            in_messages=number(varz, "in_msgs"),
            out_messages=number(varz, "out_msgs"),
            in_bytes=number(varz, "in_bytes"),
            out_bytes=number(varz, "out_bytes"),
            memory=number(varz, "mem"),
            cpu=float(cpu) if isinstance(cpu, int | float) else 0.0,
            slow_consumers=number(varz, "slow_consumers"),
        )

    async def connections(self, sort: str, offset: int, count: int) -> Connections:
        """Return connections.

        Args:
            sort: as monitoring has it: `cid`, `msgs_to`, `bytes_from`, `idle`, ...
        """
        asked: dict[str, str | int] = {"sort": sort, "offset": offset, "limit": count, "auth": 1}
        answer = await self._get("/connz", asked)
        rows = tuple(_connection(each) for each in parts(answer, "connections"))
        return Connections(rows, max(number(answer, "total"), len(rows)))

    async def accounts(self) -> tuple[Mapping[str, Any], ...]:
        """Return what `/accstatz` says about each account that somebody has used."""
        answer = await self._get("/accstatz", {"unused": 1})
        return tuple(parts(answer, "account_statz"))

    async def varz(self) -> dict[str, Any]:
        """Return all that `/varz` says: what the server was configured with, and how it is."""
        return await self._get("/varz", {})

    async def account(self, name: str) -> dict[str, Any]:
        """Return what `/accountz` says about an account.

        Raises:
            AskingError: there is none of this name.
        """
        return await self._get("/accountz", {"acc": name})

    async def _get(self, path: str, asked: Mapping[str, str | int]) -> dict[str, Any]:
        body = bytearray()
        try:
            async with self._http.stream("GET", self._address + path, params=dict(asked)) as answer:
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > _ANSWER_BYTES_MAX:
                        raise RefusedError(f"'{path}' of the monitoring says too much.")
                status = answer.status_code
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            words = str(error) or type(error).__name__
            raise UnreachableError(f"The monitoring does not answer: {words}") from None
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        # A server that is not well answers 503, and says why.
        if not isinstance(found, dict) or status not in (200, 503):
            raise RefusedError(f"'{path}' of the monitoring answers with status {status}.", status)
        return found


def _connection(answer: Answer) -> ConnectedClient:
    language = " ".join(filter(None, (text(answer, "lang"), text(answer, "version"))))
    return ConnectedClient(
        cid=number(answer, "cid"),
        name=text(answer, "name"),
        account=text(answer, "account"),
        user=text(answer, "authorized_user"),
        place=f"{text(answer, 'ip')}:{number(answer, 'port')}",
        language=language,
        uptime=text(answer, "uptime"),
        idle=text(answer, "idle"),
        rtt=text(answer, "rtt"),
        subscriptions=number(answer, "subscriptions"),
        pending_bytes=number(answer, "pending_bytes"),
        in_messages=number(answer, "in_msgs"),
        out_messages=number(answer, "out_msgs"),
        in_bytes=number(answer, "in_bytes"),
        out_bytes=number(answer, "out_bytes"),
    )
