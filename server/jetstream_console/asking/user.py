"""Who the console is to the servers, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_console.asking.answers import Answer, parsed, part, text, texts
from jetstream_console.asking.api import Api


@dataclass(frozen=True, slots=True)
class User:
    """The user of the connection.

    Attributes:
        publish, subscribe: the subjects that it may use, in words.
    """

    name: str
    account: str
    publish: str
    subscribe: str


async def user(api: Api) -> User:
    """Return who the servers take the console for.

    Raises:
        AskingError: the user may not ask even that.
    """
    answer = parsed(await api.link.request("$SYS.REQ.USER.INFO"))
    data = part(answer, "data")
    permissions = part(data, "permissions")
    return User(
        text(data, "user"),
        text(data, "account"),
        _words(part(permissions, "publish")),
        _words(part(permissions, "subscribe")),
    )


def _words(permission: Answer) -> str:
    allowed = ", ".join(texts(permission, "allow")) or "everything"
    denied = ", ".join(texts(permission, "deny"))
    return f"{allowed} except {denied}" if denied else allowed
