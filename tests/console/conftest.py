"""The console is tested on the bundled server and on the genuine one, each with its monitoring."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from jetstream_console.asking import monitor
from jetstream_console.asking.api import Api
from jetstream_console.asking.link import Target
from jetstream_console.console import Console
from jetstream_console.pages.registration import add_pages
from jetstream_console.settings import Settings
from nats.aio.client import Client
from nats.js import JetStreamContext
from nicegui import ui
from nicegui.testing import User, user_simulation

from jetstream_spark.options.option_values import Secret
from tests import nursery
from tests.patient_client import connect
from tests.ports import free_ports

_numbers = itertools.count(1)

# A user who may do everything, and one who may look at nothing but streams one by one.
CONFIG = """
jetstream { store_dir: "$STORE" }
max_payload: 16MB
max_pending: 64MB
authorization {
  users: [
    { user: all, password: all }
    { user: few, password: few, permissions: {
        publish: ["$JS.API.STREAM.INFO.*", "$JS.API.INFO"], subscribe: ["_INBOX.>"] } }
  ]
}
"""


class Served:
    """A server process with users and monitoring, started again on its port after a kill."""

    def __init__(self, command: list[str], folder: Path, config: str = CONFIG) -> None:
        self._command = command
        self.folder = folder
        self._config = folder / "server.conf"
        self._config.write_text(config.replace("$STORE", str(folder / "store")))
        self.port, self.monitor_port = free_ports(2)
        self.start()

    def start(self) -> None:
        """Start it."""
        command = [*self._command, "-a", "127.0.0.1", "-p", str(self.port)]
        command += ["-m", str(self.monitor_port), "-c", str(self._config)]
        self.process = nursery.start(command)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "Server is ready" in line:
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        self.process.kill()
        self.process.wait()

    def settings(self, user: str = "all", **changed: Any) -> Settings:
        """Return the settings of a console of this server."""
        target = Target(
            (f"nats://127.0.0.1:{self.port}",),
            user=user,
            password=Secret(user),
            request_timeout_s=changed.pop("request_timeout_s", 60.0),
        )
        given = {
            "target": target,
            "monitor": f"http://127.0.0.1:{self.monitor_port}",
            "host": "127.0.0.1",
            "port": 0,
            "page_password": None,
            "is_writable": False,
        }
        return Settings(**(given | changed))


@pytest.fixture(scope="session")
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Served]]:
    """Return what starts servers, `bundled` or `genuine`; they end with the run."""
    started: list[Served] = []

    def start(kind: str, config: str = CONFIG) -> Served:
        command = nursery.BUNDLED
        if kind == "genuine":
            command = [request.getfixturevalue("genuine_binary")]
        started.append(Served(command, tmp_path_factory.mktemp(kind), config))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture(scope="session")
def genuine_server(served: Callable[[str], Served]) -> Served:
    """The genuine one, for what is the same with both."""
    return served("genuine")


@pytest.fixture(scope="session")
def bundled_server(served: Callable[[str], Served]) -> Served:
    """The bundled one."""
    return served("bundled")


@pytest.fixture(params=["bundled", "genuine"])
def server(request: pytest.FixtureRequest) -> Served:
    """One server for everybody who does not harm it."""
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture(params=["bundled", "genuine"])
def own_server(request: pytest.FixtureRequest, served: Callable[[str], Served]) -> Served:
    """A server of one's own."""
    return served(request.param)


@pytest.fixture
def name() -> str:
    """A name that no other stream has."""
    return f"S{next(_numbers)}"


@pytest.fixture(scope="session", autouse=True)
def settled_memory() -> None:
    """Keep what was there before out of the collections that NiceGUI asks for.

    It asks for a whole one before each browser that is played, and for another one after it.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def patient_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the monitoring waited for as long as everything else."""
    monkeypatch.setattr(monitor, "_TIMEOUT_S", 60.0)


class World:
    """A console that is connected, and a client beside it that makes what is looked at."""

    def __init__(self, console: Console, client: Client) -> None:
        self.console = console
        self.api: Api = console.api
        self.client = client
        self.js: JetStreamContext = client.jetstream()

    async def settle(self) -> None:
        """Return when the server has read what the client said; its first ping may overtake it."""
        for _ in range(2):
            await self.client.flush()

    async def stream(self, name: str, payloads: list[bytes] = (), **config: Any) -> None:
        """Make a stream of `<name>.>` with messages of `<name>.a`."""
        given = {"name": name, "subjects": [f"{name}.>"], **config}
        await self.js.add_stream(**given)
        for payload in payloads:
            await self.js.publish(f"{name}.a", payload)


@asynccontextmanager
async def world_of(server: Served, **settings: Any) -> AsyncIterator[World]:
    """Connect a console to a server."""
    console = Console(server.settings(**settings))
    client = await connect(f"nats://all:all@127.0.0.1:{server.port}")
    console.open()
    while not console.link.state.is_connected:
        await asyncio.sleep(0.005)
    try:
        yield World(console, client)
    finally:
        await console.close()
        await client.close()


@pytest.fixture
def run() -> Callable[[Awaitable[None]], None]:
    """Return what runs a coroutine to its end."""
    return lambda work: asyncio.run(asyncio.wait_for(work, 110))


@pytest.fixture
def connected(server: Served) -> Callable[..., AbstractAsyncContextManager[World]]:
    """Return what connects a console to the server, with other settings if wanted."""
    return lambda **settings: world_of(server, **settings)


def stated(user: User, name: str) -> str:
    """Return what a page says of a name, among its large figures or its facts."""
    assert user.client is not None
    found = []
    for head in user.client.elements.values():
        if head.tag == "dt" and head.parent_slot is not None and _words(head) == name:
            beside = head.parent_slot.children
            found.append(_words(beside[beside.index(head) + 1]))
    [words] = found
    return words


def _words(element: ui.element) -> str:
    [label] = element.default_slot.children
    assert isinstance(label, ui.label)
    return label.text


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so; the test's own limit ends it."""
    while not condition():
        await asyncio.sleep(0.01)


@asynccontextmanager
async def browsing(server: Served, **settings: Any) -> AsyncIterator[tuple[User, World]]:
    """Serve the pages of a console to a browser that is played."""
    async with user_simulation(lambda: None) as user, world_of(server, **settings) as world:
        add_pages(world.console)
        user.should_see = _patient(user.should_see)  # type: ignore[method-assign]
        yield user, world


def _patient(see: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Look ten times a second for half a minute; what is there is seen at once."""

    async def should_see(*wanted: Any, **named: Any) -> None:
        await see(*wanted, **(named | {"retries": 300}))

    return should_see


@pytest.fixture
def browse(server: Served) -> Callable[..., AbstractAsyncContextManager[tuple[User, World]]]:
    """Return what serves the pages of a console of the server to a browser that is played."""
    return lambda **settings: browsing(server, **settings)
