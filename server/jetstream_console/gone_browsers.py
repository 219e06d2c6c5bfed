"""A browser that goes away before it is answered is nothing to write a trace about.

Some libraries between the pages and the web server take a page that is not sent any more for an
error of the page.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class GoneBrowsers:
    """Keeps from the web server what fails only because nobody waits for the answer any more."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, except for that."""
        is_gone = has_begun = False

        async def receive_and_note() -> Message:
            nonlocal is_gone
            message = await receive()
            is_gone = is_gone or message["type"] == "http.disconnect"
            return message

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._application(scope, receive_and_note, send_and_note)
        except RuntimeError:
            if has_begun or not is_gone:
                raise
