"""The connection to the servers: it is made in the background, and restored by itself.

All pages of all browsers share it. It says whether it is up, and if not, why, in the words of
whoever refused it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error, NoRespondersError

from jetstream_console.asking.errors import (
    AskingError,
    RefusedError,
    UnansweredError,
    UnreachableError,
)
from jetstream_spark.options.option_values import Secret

_RECONNECT_WAIT_S = 1
_CONNECT_TIMEOUT_S = 5
_PING_INTERVAL_S = 20
# A line of the protocol has 4,096 bytes, and on a longer one the server ends the connection of all
# pages.
_SUBJECT_BYTES_MAX = 3_000
_LISTENING_BYTES = 16 << 20
_FORBIDDEN = "permissions violation for "


@dataclass(frozen=True, slots=True)
class Target:
    """Which servers to ask, and as which user. Secrets stay references until a connection is made.

    Attributes:
        creds: path of a credentials file.
        nkey: path of a file with an nkey's seed.
        domain: a JetStream domain, or nothing.
    """

    servers: tuple[str, ...]
    user: str = ""
    password: Secret | None = None
    token: Secret | None = None
    creds: str = ""
    nkey: str = ""
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    domain: str = ""
    inbox_prefix: str = ""
    request_timeout_s: float = 5.0

    @property
    def api_prefix(self) -> str:
        """What the subjects of the JetStream API begin with."""
        return f"$JS.{self.domain}.API" if self.domain else "$JS.API"

    @property
    def places(self) -> tuple[str, ...]:
        """The servers as they may be shown: without a user and a password."""
        return tuple(_place(server) for server in self.servers)


@dataclass(frozen=True, slots=True)
class LinkState:
    """Where the connection stands.

    Attributes:
        place: host and port of the server that it leads to; empty while it leads nowhere.
        words: why it leads nowhere, as far as anybody said.
    """

    is_connected: bool
    place: str = ""
    server_name: str = ""
    server_version: str = ""
    cluster: str = ""
    max_payload: int = 0
    words: str = ""


class Listening:
    """What hands over messages of a subject."""

    def __init__(self, subscription: Subscription, client: Client) -> None:
        self._subscription = subscription
        self._client = client

    @property
    def is_open(self) -> bool:
        """Whether messages still come: not once it is closed, or its connection given up."""
        return not self._subscription._closed and not self._client.is_closed

    async def close(self) -> None:
        """Hand over nothing more."""
        with suppress(Error):
            await self._subscription.unsubscribe()


class ServerLink:
    """One connection of the console, made again whenever it is lost.

    Args:
        target: where it is to lead.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._client = Client()
        self._has_begun = False
        self._connecting: asyncio.Task[None] | None = None
        self._words = "No server has answered yet."
        # The server reports what it forbids apart from any request; the client hands that on in
        # lower case.
        self._asked: dict[str, set[asyncio.Future[AskingError]]] = {}

    @property
    def client(self) -> Client:
        """The client of nats-py."""
        return self._client

    @property
    def state(self) -> LinkState:
        """Where it stands now."""
        if not self._client.is_connected:
            return LinkState(is_connected=False, words=self._words)
        told: dict[str, Any] = self._client._server_info
        url = self._client.connected_url
        return LinkState(
            is_connected=True,
            place=_place(url.geturl()) if url is not None else "",
            server_name=str(told.get("server_name", "")),
            server_version=str(told.get("version", "")),
            cluster=str(told.get("cluster", "")),
            max_payload=self._client.max_payload,
        )

    def open(self) -> None:
        """Start connecting, in the background."""
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def close(self) -> None:
        """End the connection, or the attempt at one."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        await self._give_up()

    async def request(
        self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None
    ) -> bytes:
        """Return the answer to a request; of a publish into a stream, its acknowledgement.

        Raises:
            UnreachableError: there is no connection, or nobody listens.
            UnansweredError: nobody answered in time, or before the connection was lost.
            RefusedError: the user may not ask this, or the subject is too long for any server.
        """
        if len(subject.encode("utf-8", "replace")) > _SUBJECT_BYTES_MAX:
            raise RefusedError(f"'{subject[:40]}...' is too long to be sent.")
        self._check_connected()
        with self._refusals(subject) as refused:
            answer = asyncio.ensure_future(self._said(subject, payload, headers or {}))
            try:
                both: set[asyncio.Future[Any]] = {refused, answer}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if refused.done():
                    raise refused.result()
                return answer.result().data
            finally:
                answer.cancel()
                await asyncio.gather(answer, return_exceptions=True)

    async def listen(self, subject: str, take: Callable[[str, bytes], None]) -> Listening:
        """Hand over subject and payload of what is published, until the answer of this is closed.

        Raises:
            UnreachableError: there is no connection.
            UnansweredError: nobody answered in time, or before the connection was lost.
            RefusedError: the user may not listen to this.
        """
        self._check_connected()

        async def on_message(message: Msg) -> None:
            take(message.subject, message.data)

        with self._refusals(subject) as refused:
            try:
                subscription = await self._client.subscribe(
                    subject, cb=on_message, pending_bytes_limit=_LISTENING_BYTES
                )
            except (Error, OSError, ValueError) as error:
                raise UnreachableError(_words(error)) from None
            listening = Listening(subscription, self._client)
            try:
                # What the server has against it comes before the answer to a ping. The client's
                # first one may overtake the subscription.
                for _ in range(2):
                    await self._ping(refused)
            except BaseException:
                await listening.close()
                raise
        return listening

    async def _ping(self, refused: asyncio.Future[AskingError]) -> None:
        """Return once the server has heard all that was said before; raise what is refused."""
        heard: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        both: set[asyncio.Future[Any]] = {refused, heard}
        try:
            # Not `flush`, which cancels what it waits for when nobody wants it any more, or after
            # its time: the client gives the answer to it nevertheless, and then reads no more.
            await self._client._send_ping(heard)
        except (Error, OSError) as error:
            raise UnreachableError(_words(error)) from None
        await asyncio.wait(
            both, timeout=self.target.request_timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        if refused.done():
            raise refused.result()
        if not heard.done():
            raise self._unanswered()

    def _check_connected(self) -> None:
        if not self._client.is_connected:
            raise UnreachableError(f"There is no connection to a server. {self._words}")

    @contextmanager
    def _refusals(self, subject: str) -> Iterator[asyncio.Future[AskingError]]:
        """Yield a future that gets an error if the server forbids a subject meanwhile, or the
        connection is lost, on which no answer comes any more."""
        refused: asyncio.Future[AskingError] = asyncio.get_running_loop().create_future()
        waiting = self._asked.setdefault(subject.lower(), set())
        waiting.add(refused)
        try:
            yield refused
        finally:
            refused.cancel()
            waiting.discard(refused)
            if not waiting:
                self._asked.pop(subject.lower(), None)

    async def _said(self, subject: str, payload: bytes, headers: dict[str, str]) -> Msg:
        try:
            return await self._client.request(
                subject, payload, timeout=self.target.request_timeout_s, headers=headers or None
            )
        except NoRespondersError:
            raise UnreachableError(f"Nobody listens to '{subject}'.") from None
        except TimeoutError:
            raise self._unanswered() from None
        except (Error, OSError, ValueError) as error:
            raise UnreachableError(_words(error)) from None

    def _unanswered(self) -> UnansweredError:
        seconds = self.target.request_timeout_s
        return UnansweredError(f"There was no answer within {seconds:g} s.")

    async def _connect(self) -> None:
        """Connect, and again with a new client whenever one has given up for good."""
        while True:
            ended = asyncio.Event()
            try:
                arguments = self._arguments(ended)
                self._has_begun = True
                await self._client.connect(**arguments)
                await ended.wait()
                self._words = "The server ended the connection; it is being made anew."
            except Exception as error:
                # About files of keys and credentials libraries raise what they like. Whatever it
                # is, somebody reads it, mends the file, and need not start the console again.
                self._words = _words(error)
            await self._give_up()
            await asyncio.sleep(_RECONNECT_WAIT_S)

    async def _give_up(self) -> None:
        """End what the client has; the next one is another."""
        if self._has_begun and not self._client.is_closed:
            await self._client.close()
        self._client, self._has_begun = Client(), False

    def _arguments(self, ended: asyncio.Event) -> dict[str, Any]:
        target = self.target

        async def on_closed() -> None:
            ended.set()

        given = {
            "user": target.user,
            "password": target.password and target.password.resolve("password"),
            "token": target.token and target.token.resolve("token"),
            "user_credentials": target.creds,
            "nkeys_seed": target.nkey,
            "tls": _tls(target),
            "inbox_prefix": target.inbox_prefix,
        }
        return {
            "servers": list(target.servers),
            "name": "jetstream-console",
            "error_cb": self._on_error,
            "disconnected_cb": self._on_disconnected,
            "closed_cb": on_closed,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": _RECONNECT_WAIT_S,
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "ping_interval": _PING_INTERVAL_S,
            **{name: value for name, value in given.items() if value},
        }

    async def _on_error(self, error: Exception) -> None:
        words = _words(error)
        if not self._client.is_connected:
            self._words = words
        at = words.lower().find(_FORBIDDEN)
        if at < 0:
            return
        # The client has put what the server said into lower case.
        said = words[at:].lower()
        for subject, waiting in self._asked.items():
            if f'"{subject}"' in said:
                for each in waiting:
                    if not each.done():
                        each.set_result(RefusedError(said.capitalize()))

    async def _on_disconnected(self) -> None:
        self._words = "The connection was lost; it is being made anew."
        # What waits to be sent would be done after those who asked for it heard that it was lost.
        self._client._pending.clear()
        self._client._pending_data_size = 0
        for each in [each for waiting in self._asked.values() for each in waiting]:
            if not each.done():
                each.set_result(UnansweredError(self._words))


def _tls(target: Target) -> ssl.SSLContext | None:
    """Return how to speak TLS; None leaves it to the server."""
    wants = any(urlsplit(server).scheme in ("tls", "wss") for server in target.servers)
    if not (wants or target.tls_ca or target.tls_cert):
        return None
    context = ssl.create_default_context(cafile=target.tls_ca or None)
    if target.tls_cert:
        context.load_cert_chain(target.tls_cert, target.tls_key or None)
    return context


def _place(server: str) -> str:
    """Return host and port, without anything secret."""
    parts = urlsplit(server if "://" in server else f"nats://{server}")
    try:
        port = parts.port
    except ValueError:
        port = None
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{host}:{port or 4222}"


def _words(error: BaseException) -> str:
    return str(error).removeprefix("nats: ").strip() or type(error).__name__
