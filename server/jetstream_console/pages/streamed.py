"""An answer that is sent piece by piece, and cut short when its content turns out to be wrong.

A browser that gets less than was announced keeps no file. The announcement is why nothing may
compress the answer on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from jetstream_console.asking.errors import AskingError
from jetstream_console.asking.progress import TransferProgress
from jetstream_console.pages.downloads import attachment_headers


class Streamed(Response):
    """Sends content as a file.

    Args:
        content: its pieces; an `AskingError` of theirs cuts the answer short.
        name: of the file.
        progress: is told how far it is; `whole` is announced as the length.
    """

    def __init__(
        self, content: AsyncIterator[bytes], name: str, progress: TransferProgress
    ) -> None:
        length = {"Content-Length": str(progress.whole), "Content-Encoding": "identity"}
        headers = attachment_headers(name) | length
        super().__init__(media_type="application/octet-stream", headers=headers)
        self._content = content
        self._progress = progress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, unless the browser goes away first."""
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for each in (sending, gone):
                each.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
            self._progress.end("The browser did not want more of it.")

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        sent = 0
        try:
            async for piece in self._progress.until_stopped(self._content):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                sent += len(piece)
                self._progress.move(sent)
        except AskingError as error:
            self._progress.end(str(error))
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        self._progress.end("")


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
