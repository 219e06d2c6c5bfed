"""What a stream has made of a message that is traced, and how the genuine server says it.

Its errors on this way are not those of the API: a few have a text of their own, others the API's
with its number, some without. Probed with 2.15.1.
"""

from __future__ import annotations

from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.wire.go_quote import quoted

DUPLICATE = "msgid is duplicate"
_NO_NUMBER = 2**64 - 1  # what the genuine server reads where there is no number
_DIGITS_MAX = 18

_TEXTS = {
    errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM().err_code: "maximum payload exceeded",
    errors.STREAM_HEADER_EXCEEDS_MAXIMUM().err_code: "maximum payload exceeded",
    errors.MESSAGE_TTL_DISABLED().err_code: "message TTL disabled",
}
_WITHOUT_NUMBER = (
    errors.STREAM_NOT_MATCH().err_code,
    errors.STREAM_ROLLUP_FAILED("").err_code,
    errors.STREAM_STORE_FAILED("").err_code,
)
_WRONG_SEQUENCE = errors.STREAM_WRONG_LAST_SEQUENCE(0).err_code
_WRONG_ID = errors.STREAM_WRONG_LAST_MSG_ID("").err_code
# What is found out last, when all else is right: the subject is known by then.
_LATE = (errors.STREAM_STORE_FAILED("").err_code, errors.MESSAGE_TTL_INVALID().err_code)


class StoringOutcome:
    """What becomes of one message. It is filled in while a stream takes it.

    Args:
        is_only: whether the message is looked at, and not stored.

    Attributes:
        subject: under which it is stored; empty if it did not get that far.
        error: why it is not stored.
        is_unwanted: whether no consumer needs it.
        is_staged: whether it waits for the rest of its batch.
    """

    def __init__(self, *, is_only: bool) -> None:
        self.is_only = is_only
        self.subject = b""
        self.error = ""
        self.is_unwanted = False
        self.is_staged = False
        self._special: dict[bytes, bytes] = {}

    def begin(self, message: Candidate) -> None:
        """Note which message it is about."""
        self.subject = message.subject
        self._special = message.special

    def staged(self, message: Candidate) -> bool:
        """Note a message of an atomic batch; tell whether it is to go on as part of it.

        `is_only` keeps out only a message that would complete a batch: any other is stored with its
        batch, whatever it says, as in the genuine server.
        """
        is_last = names.BATCH_COMMIT in message.special
        self.is_staged = not is_last
        return not (is_last and self.is_only)

    def taken(self, *, is_new: bool, is_wanted: bool) -> None:
        """Note that nothing spoke against the message."""
        self.is_unwanted = not is_wanted
        if not is_new:
            self.subject, self.error = b"", DUPLICATE

    def refused(self, error: ApiError) -> None:
        """Note why it is not stored."""
        code = error.err_code
        self.is_staged = False
        if code not in _LATE:
            self.subject = b""
        if code in _TEXTS:
            self.error = _TEXTS[code]
        elif code == _WRONG_SEQUENCE and (last := error.description.rpartition(" ")[2]).isdigit():
            self.error = _wrong_sequence(self._special, int(last))
        elif code == _WRONG_ID:
            expected = self._special.get(names.EXPECTED_LAST_MESSAGE_ID, b"")
            last_id = error.description.partition(": ")[2]
            wanted = quoted(expected.decode(errors="replace"))
            self.error = f"last msgid mismatch: {wanted} vs {quoted(last_id)}"
        elif code in _WITHOUT_NUMBER:
            self.error = error.description
        else:
            self.error = f"{error.description} ({code})"


def _wrong_sequence(special: dict[bytes, bytes], last: int) -> str:
    by_subject = special.get(names.EXPECTED_LAST_SUBJECT_SEQUENCE)
    if by_subject and _number(by_subject) != last:
        return f"last sequence by subject mismatch: {_number(by_subject)} vs {last}"
    expected = _number(special.get(names.EXPECTED_LAST_SEQUENCE, b""))
    return f"last sequence mismatch: {expected} vs {last}"


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else _NO_NUMBER
