"""What a stream takes in, looked at again and again while somebody watches.

No consumer is made for it: each look asks where the stream ends, and reads what came since. What is
replaced before it was looked at is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_console.asking.answers import number, part, text
from jetstream_console.asking.api import Api, token
from jetstream_console.asking.messages import Message, MessageReader

_COUNT_MAX = 200
# Whoever is further behind goes on near the end.
BEHIND_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What came since the look before.

    Attributes:
        skipped: sequences that were passed over, because so many came.
        is_remade: whether the stream was deleted and made anew, and is read from its beginning.
    """

    messages: tuple[Message, ...] = ()
    skipped: int = 0
    is_remade: bool = False


class Watch:
    """Watches a stream from its first look on.

    Args:
        pattern: the subjects to watch.
    """

    def __init__(self, api: Api, stream: str, pattern: str = ">") -> None:
        self._api = api
        self._info = f"STREAM.INFO.{token(stream)}"
        self._reader = MessageReader(api, stream)
        self._pattern = pattern
        self._created = ""
        self._position = 0

    async def look(self) -> Arrivals:
        """Return what came; the first look only notes where the stream ends.

        Raises:
            AskingError: the stream could not be looked at; it may be tried again.
        """
        answer = await self._api.ask(self._info)
        created, end = text(answer, "created"), number(part(answer, "state"), "last_seq") + 1
        if not self._created:
            self._created, self._position = created, end
            return Arrivals()
        is_remade = created != self._created
        position = 1 if is_remade else self._position
        start = max(position, end - BEHIND_MAX)
        page = await self._reader.after(start, self._pattern, _COUNT_MAX, end)
        # Whatever failed above is asked for again.
        self._created, self._position = created, page.end
        return Arrivals(page.messages, start - position, is_remade)
