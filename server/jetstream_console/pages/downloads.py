"""Bytes that the browser saves and never shows: they may be a page of a stranger's."""

from __future__ import annotations

from starlette.responses import PlainTextResponse, Response

from jetstream_console.asking.errors import AskingError
from jetstream_console.asking.messages import MessageReader
from jetstream_console.console import Console

_HEADERS = {"Content-Security-Policy": "sandbox", "Cache-Control": "no-store"}


async def payload(console: Console, stream: str, sequence: int) -> Response:
    """Return the payload of a message as a file."""
    try:
        message = await MessageReader(console.api, stream).at(sequence)
    except AskingError as error:
        return PlainTextResponse(str(error), 404, headers=_HEADERS)
    return attachment(message.payload, f"{stream}-{sequence}.bin")


def attachment(content: bytes, name: str) -> Response:
    """Return bytes as a file with a name."""
    headers = attachment_headers(name)
    return Response(content, media_type="application/octet-stream", headers=headers)


def attachment_headers(name: str) -> dict[str, str]:
    """Return what makes an answer a file with a name, in which characters with a meaning are
    replaced."""
    plain = "".join(each if (each.isascii() and each.isalnum()) or each in "-_." else "_"
                    for each in name)  # fmt: skip
    return {**_HEADERS, "Content-Disposition": f'attachment; filename="{plain}"'}
