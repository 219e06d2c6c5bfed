"""Publishing by hand, on both servers."""

from __future__ import annotations

import pytest
from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_console.asking.messages import MessageReader
from jetstream_console.asking.publishing import Stored, headers_of, publish


def test_a_stream_takes_a_message_once(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name)
            link, headers = world.console.link, {"Nats-Msg-Id": "1", "A": "ü: <b>"}
            assert await publish(link, f"{name}.a", b"x", headers) == Stored(name, 1, False)
            assert await publish(link, f"{name}.a", b"x", headers) == Stored(name, 1, True)
            message = await MessageReader(world.api, name).at(1)
            assert message.payload == b"x" and ("A", "ü: <b>") in message.headers

    run(work())


def test_what_no_stream_takes_is_said(run, connected, name):
    async def work():
        async with connected() as world:
            link = world.console.link
            await world.stream(name, max_msg_size=10)
            with pytest.raises(AskingError, match="Nobody listens"):
                await publish(link, f"{name}", b"", {})
            for subject in ("", "a b", "a..b", f"{name}.*", ">", "a\r\nPUB b 0"):
                with pytest.raises(AskingError):
                    await publish(link, subject, b"", {})
            with pytest.raises(RefusedError, match="message size exceeds maximum allowed"):
                await publish(link, f"{name}.a", b"x" * 11, {})
            with pytest.raises(AskingError, match="maximum payload exceeded"):
                await publish(link, f"{name}.a", bytes(17 << 20), {})
            with pytest.raises(RefusedError, match="no stream"):
                await publish(link, "$JS.API.INFO", b"", {})
            assert (await world.js.stream_info(name)).state.messages == 0

    run(work())


def test_headers_are_written_one_a_line():
    assert headers_of(" A : 1\n\nB:x: y\n") == {"A": "1", "B": "x: y"}
    assert headers_of("") == {}
    for lines in ("A", ": x", "A: 1\nA: 2", "A\x00: 1"):
        with pytest.raises(RefusedError):
            headers_of(lines)
