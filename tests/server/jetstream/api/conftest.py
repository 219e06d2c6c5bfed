"""An API with everything behind it, in memory."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.account_limits import AccountLimits, ServerLimits
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Output, Publish
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.vault import MemoryVault

START = 1_700_000_000_000_000_000


class Client:
    """The origin of the requests."""

    echo = True
    is_server = False
    answers = None

    def client_info(self, now: int) -> dict[str, Any]:
        return {"id": 7, "acc": "$G", "kind": "Client"}


class Listener:
    """A receiver that only makes interest."""

    def receive(self, stretch: Stretch) -> None:
        raise AssertionError("nothing is routed in these tests")


class Exchange:
    """Sends requests to an API and returns the answers."""

    def __init__(
        self,
        limits: AccountLimits | None = None,
        server_limits: ServerLimits | None = None,
        *,
        domain: str = "",
        enabled: bool = True,
        is_system: bool = False,
    ) -> None:
        sublist = Sublist()
        self.output = Output(sublist)
        self.context = Context("$G", "srv", domain, sublist, self.output, Nuid(Random(1)))
        self.vault = MemoryVault()
        self.catalog = Catalog(self.context, self.vault, limits, server_limits)
        self.api = Api(self.catalog) if enabled else Api.disabled(self.context, is_system=is_system)
        self.api.subscribe()
        self.now = START

    def raw(self, subject: str, body: bytes = b"", headers: bytes = b"") -> bytes | None:
        """Return the bytes of the answer, None for silence."""
        name = f"$JS.API.{subject}".encode()
        match = self.context.sublist.match(name)
        self.output.sends_after_flush.clear()
        for subscription in match.plain:
            run = PubRun.single(name, b"_INBOX.1", headers, body)
            subscription.receiver.receive(Stretch(run, 0, 1, subscription, Client(), self.now))
        for subject_sent, payload in self.sent():
            if subject_sent == b"_INBOX.1":
                return payload
        return None

    def ask(self, subject: str, body: Any = None, headers: bytes = b"") -> dict[str, Any]:
        """Return the decoded answer, without the constant part of its type."""
        text = body if isinstance(body, bytes) else b"" if body is None else _encode(body)
        answer = self.raw(subject, text, headers)
        assert answer is not None, f"silence for {subject}"
        decoded: dict[str, Any] = json.loads(answer)
        decoded["type"] = decoded["type"].removeprefix("io.nats.jetstream.api.v1.")
        return decoded

    def refusal(self, subject: str, body: Any = None, headers: bytes = b"") -> tuple[int, str]:
        """Return err_code and description of an answer that is an error."""
        error = self.ask(subject, body, headers)["error"]
        return error["err_code"], error["description"]

    def publish(self, subject: str, payload: bytes = b"x", headers: bytes = b"") -> None:
        """Publish one message; a nanosecond passes."""
        self.now += 1
        run = PubRun.single(subject.encode(), b"", headers, payload)
        for subscription in self.context.sublist.match(subject.encode()).plain:
            subscription.receiver.receive(Stretch(run, 0, 1, subscription, None, self.now))

    def sent(self) -> list[tuple[bytes, bytes]]:
        """Return what was published since the last request: subjects and payloads."""
        return [
            (send.run.subject(0), send.run.payload(0))
            for send in self.output.sends_after_flush
            if isinstance(send, Publish)
        ]

    def listen(self, subject: str) -> None:
        """Make interest in a subject."""
        self.context.sublist.insert(Subscription(subject.encode(), Listener()))


def _encode(body: Any) -> bytes:
    return json.dumps(body).encode()


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


@pytest.fixture
def make_exchange() -> type[Exchange]:
    return Exchange
