"""nats-py, but that it waits a minute for an answer, where by itself it gives up after 0.5 to 10 s.

How quick a machine is, is no matter of the tests that use it: they compare what is answered.
"""

from __future__ import annotations

from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

PATIENCE_S = 60


class PatientClient(Client):
    """A client whose requests, and those of its JetStream contexts, have a minute each."""

    async def connect(self, *servers: Any, **options: Any) -> None:
        """Connect, as the client of nats-py does."""
        await super().connect(*servers, **{"connect_timeout": PATIENCE_S, **options})

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = PATIENCE_S,
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        """Return the answer to a request, also where nats-py asks by itself with less time."""
        return await super().request(subject, payload, max(timeout, PATIENCE_S), old_style, headers)

    async def flush(self, timeout: int = PATIENCE_S) -> None:
        """Return when the server has read what was said."""
        await super().flush(timeout)

    def jetstream(self, **options: Any) -> JetStreamContext:
        """Return what asks JetStream."""
        return super().jetstream(**{"timeout": PATIENCE_S, **options})


async def connect(*servers: Any, **options: Any) -> PatientClient:
    """Return a client that is connected."""
    client = PatientClient()
    await client.connect(*servers, **options)
    return client
