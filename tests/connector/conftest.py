"""Fixtures for tests of the connector against the genuine server."""

from __future__ import annotations

import base64
import itertools
import subprocess
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from jetstream_spark import embedded
from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.options.format_options import SinkOptions
from tests import nursery

_numbers = itertools.count(1)


class Stream:
    """A stream of a test: made, looked into, told about by options."""

    def __init__(
        self, url: str, credentials: dict[str, str] | None = None, **config: object
    ) -> None:
        self.url = url
        self._credentials = credentials or {}
        self.name = f"S{next(_numbers)}"
        self.subject = self.name.lower()
        # A message that is sent again because its ack was late would be there twice.
        patient = self.sink(requestTimeout="60s").connection
        self.control = Blocking(Control(this_host(), patient, "test"))
        body = {"name": self.name, "subjects": [f"{self.subject}.>"], **config}
        self.control.request(f"STREAM.CREATE.{self.name}", body)

    def sink(self, **options: object) -> SinkOptions:
        """Options of a write into this stream."""
        named = {"servers": self.url, "stream": self.name, "requestTimeout": "2s"}
        named |= self._credentials | options
        return SinkOptions.parse(
            {key: str(value) for key, value in named.items() if value is not None}
        )

    def messages(self) -> list[tuple[str, bytes, bytes]]:
        """Subject, header block and payload of everything in it."""
        state = self.control.stream_state(self.name)
        found = []
        for sequence in range(state.first, state.next):
            answer = self.control.request(f"STREAM.MSG.GET.{self.name}", {"seq": sequence})
            message = answer["message"]
            block, data = (base64.b64decode(message.get(key, "")) for key in ("hdrs", "data"))
            found.append((message["subject"], block, data))
        return found

    @property
    def count(self) -> int:
        return self.control.stream_state(self.name).messages


@pytest.fixture(scope="module", autouse=True)
def nursed() -> Iterator[None]:
    """Have the bundled server start in the nursery: a test restarts it several times. Those of
    `tests/spark` start it as users do."""

    def start(command: Sequence[str], **settings: Any) -> Any:
        if [*command[:3]] == nursery.BUNDLED:
            return nursery.start(command)
        return subprocess.Popen(command, **settings)

    with pytest.MonkeyPatch.context() as patch:
        known = SimpleNamespace(**vars(subprocess) | {"Popen": start})
        patch.setattr(embedded, "subprocess", known)
        yield


@pytest.fixture
def stream(genuine) -> Stream:
    """A fresh stream on the shared server."""
    return Stream(genuine.url)


@pytest.fixture
def make_stream() -> Callable[..., Stream]:
    """Make a stream on any server, with any configuration."""
    return Stream


@pytest.fixture
def lagging_replica(monkeypatch) -> list[dict]:
    """The next two consumers are made by a replica that has nothing yet; returns all consumers."""
    made: list[dict] = []
    create = Control.create_consumer

    def create_consumer(control, stream, config):
        created = yield from create(control, stream, config)
        made.append(created)
        return created | {"num_pending": 0} if len(made) <= 2 else created

    monkeypatch.setattr(Control, "create_consumer", create_consumer)
    monkeypatch.setattr(StreamState, "is_replicated", True)
    return made
