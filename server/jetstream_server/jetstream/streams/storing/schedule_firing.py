"""What schedules have a stream store when they come up."""

from __future__ import annotations

from collections.abc import Callable

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.schedules.schedule import FIRED_BYTES_OF_UNIT
from jetstream_server.jetstream.streams.storing.single_storing import store_single


def fire_schedules(contents: Contents, log: Callable[[str, str], None], now: int) -> float:
    """Store what has come up; what is refused is left out, and noted. Return the units of work that
    it took.

    Raises:
        StoreError: what is left comes up again.
    """
    schedules = contents.schedules
    if schedules is None:
        return 0.0
    copies = schedules.pop_due(contents.store, now)
    units = len(copies) + sum(copy.weight for copy in copies) / FIRED_BYTES_OF_UNIT
    try:
        while copies:
            copy = copies[0]
            try:
                message = Candidate(copy.target, b"", copy.headers, copy.payload)
                store_single(contents, message, now)
            except ApiError as error:
                text = f"schedule {copy.scheduler.decode(errors='replace')} did not fire"
                log("WRN", f"stream '{contents.name}': {text}: {error}")
            del copies[0]
    except StoreError:
        schedules.postpone(copies, now)
        raise
    return units
