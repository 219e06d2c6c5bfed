"""Without --writable nothing that changes anything can be reached, whatever a browser sends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import Served, browsing, until
from tests.console.pages.test_frame import PAGES, fill

# What may be asked for, and published: nothing else leaves the console.
READS = re.compile(
    r"\$JS\.API\.(INFO|STREAM\.(LIST|INFO\.[\w-]+|MSG\.GET\.\w+)|CONSUMER\.(LIST|INFO)\.[\w.]+)"
    r"|\$SYS\.REQ\.USER\.INFO"
)
VALUES: tuple[Any, ...] = (None, 7, "S")


def play(client: Any) -> int:
    """Send every event that any element of a page takes, and some that it does not expect."""
    played = 0
    for element in list(client.elements.values()):
        for listener in list(element._event_listeners.values()):
            for value in VALUES:
                args = [json.dumps(value)]
                message = {"id": element.id, "listener_id": listener.id, "args": args}
                if listener.id in element._event_listeners:
                    client.handle_event(message)
                    played += 1
    return played


@pytest.mark.parametrize("is_writable", [False, True])
def test_only_reading_is_reached_by_any_event(
    run: Callable[..., None],
    served: Callable[[str], Served],
    tmp_path: Path,
    is_writable: bool,
) -> None:
    server = served("genuine")

    async def work() -> None:
        settings: dict[str, Any] = {"is_writable": is_writable, "checkpoints": str(tmp_path)}
        async with browsing(server, **settings) as (user, world):
            await fill(server.port)
            asked: set[str] = set()
            request = world.console.link.request

            async def heard(subject: str, payload: bytes = b"", headers: Any = None) -> bytes:
                asked.add(subject)
                return await request(subject, payload, headers)

            world.console.link.request = heard  # type: ignore[method-assign]
            played = 0
            some = "/streams/S/consumers/C"
            pages = {some: PAGES[some]} if is_writable else PAGES
            for path, words in (*pages.items(), ("/publish", "Publish")):
                client = await user.open(path)
                if words != "shop":
                    await user.should_see(words)
                played += play(client)
                await world.settle()
            await until(lambda: not world.console.link._asked)
            assert played > 20 * len(pages)
            changing = {each for each in asked if not READS.fullmatch(each)}
            # That the events do reach what changes something is seen where that is allowed.
            assert bool(changing) is is_writable, changing

    run(work())
