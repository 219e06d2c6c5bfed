"""Answers in pieces: cut short when their content is wrong, and given up when nobody wants them."""

from __future__ import annotations

import asyncio

import pytest
from jetstream_console.asking.errors import RefusedError
from jetstream_console.asking.progress import TransferProgress
from jetstream_console.pages.streamed import Streamed


async def never():
    await asyncio.Event().wait()


async def pieces(end: Exception | None = None):
    yield b"first"
    yield b"second"
    if end is not None:
        raise end


async def answer(content, receive, progress) -> list[dict]:
    sent = []

    async def send(message):
        sent.append(message)

    await Streamed(content, '"\r\nX: y', progress)({"type": "http"}, receive, send)
    return sent


def test_all_of_it_is_sent_with_its_length(run):
    async def work():
        progress = TransferProgress(11)
        start, *parts = await answer(pieces(), never, progress)
        headers = dict(start["headers"])
        assert headers[b"content-length"] == b"11"
        assert headers[b"content-disposition"] == b'attachment; filename="___X__y"'
        assert headers[b"content-encoding"] == b"identity"
        assert b"".join(each["body"] for each in parts) == b"firstsecond"
        assert not parts[-1]["more_body"]
        assert (progress.share, progress.words) == (1.0, "")

    run(work())


def test_what_is_wrong_or_stopped_is_never_completed(run):
    async def work():
        for end, words in ((RefusedError("damaged"), "damaged"), (None, "It was stopped.")):
            progress = TransferProgress(11)
            if end is None:
                progress.stop()
            _, *parts = await answer(pieces(end), never, progress)
            assert all(each["more_body"] for each in parts)
            assert progress.is_over and progress.words == words

    run(work())


def test_nothing_more_is_read_once_the_browser_is_gone(run):
    async def work():
        ended = []

        async def endless():
            try:
                while True:
                    yield b"x"
                    await asyncio.sleep(0)
            finally:
                ended.append(True)

        messages = [{"type": "http.request"}, {"type": "http.disconnect"}]

        async def receive():
            await asyncio.sleep(0)
            return messages.pop(0)

        progress = TransferProgress(11)
        content = endless()
        await answer(content, receive, progress)
        await content.aclose()
        assert ended and progress.words == "The browser did not want more of it."

    run(work())


def test_a_fault_of_ours_is_not_swallowed(run):
    async def work():
        with pytest.raises(ZeroDivisionError):
            await answer(pieces(ZeroDivisionError()), never, TransferProgress(11))

    run(work())
