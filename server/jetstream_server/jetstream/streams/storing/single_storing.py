"""One message on its own: first it is decided whether it may be stored, then it is stored."""

from __future__ import annotations

from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.storing.admission import check, check_room, check_ttl


def take_single(contents: Contents, message: Candidate, now: int) -> tuple[int, bool]:
    """Store one message, or recognise it as a duplicate; nothing is answered.

    Returns:
        Its sequence and True, or that of the original and False.

    Raises:
        ApiError: it may not be stored.
    """
    try:
        contents.dedupe.expire(now)
        original = check(contents, message, now)
        if original is not None:
            return original, False
        return store_single(contents, message, now), True
    except StoreError as failure:
        raise contents.not_stored(failure) from failure


def store_single(contents: Contents, message: Candidate, now: int) -> int:
    """Store one message that passed; return its sequence.

    Raises:
        ApiError: it has no room, or a TTL that cannot be read.
        StoreError: the store did not take it.
    """
    is_wanted = contents.is_wanted(message.subject)
    previous = 0
    if is_wanted:
        check_ttl(contents.config, message)
        check_room(contents, message)
        if contents.republishes:
            previous = contents.store.subject_last(message.subject)
    return contents.append(message, previous, now, is_wanted=is_wanted)
