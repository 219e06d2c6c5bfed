"""What becomes of refused rows of a batch: they are sent again, dead letters, or an error.

there is no room for the batch, too many    again, for `outageTimeout`; then BatchLostError. None
have been begun, or it was lost on its way  of its rows becomes a dead letter
the stream is busy, or has no leader        again, `publishRetries` times; without a leader, for
                                            `outageTimeout`. If that did not help, the next rows
                                            that are refused for the same reason are not waited for
any other refusal                           PublishRefusedError; or, with onError=deadLetter,
                                            dead letters

A dead letter that nobody takes is sent again in the same way. Its row is not lost: when no stream
collects the dead-letter subject, that is a PublishRefusedError.
"""

from __future__ import annotations

from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Host, Operation, Pause
from jetstream_spark.client.patience import PASSING, Patience
from jetstream_spark.errors import (
    BatchLostError,
    ConnectorError,
    NoRespondersError,
    PublishRefusedError,
    RequestRefusedError,
)
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.atomic_batch import held_bytes
from jetstream_spark.sink.batch_outcome import RowPlaces, RowRefusal
from jetstream_spark.sink.dead_letter import DeadLetter, dead_letter
from jetstream_spark.sink.outgoing_rows import OutgoingRows
from jetstream_spark.sink.refusals import (
    BATCH_INCOMPLETE,
    NOBODY,
    TOO_MANY_REQUESTS,
    is_about_the_stream,
    is_lost,
    is_passing,
    lost,
    refused,
)

RETRY_PAUSE_S = 0.25


class RefusedRows:
    """The refused rows of one write.

    Attributes:
        dead_letters: rows that the dead-letter subject took.
    """

    def __init__(self, host: Host, options: SinkOptions) -> None:
        self.dead_letters = 0
        self._host = host
        self._options = options
        self._control = Control(host, options.connection, "writer")
        self._patience = Patience(host, options.connection.outage_timeout_s)
        self._final: set[tuple[int, int]] = set()  # reasons that did not go away, or never do

    def note_progress(self) -> None:
        """Something was stored."""
        self._patience.note_progress()

    def judge(
        self, refusal: RowRefusal, rows: OutgoingRows, numbers: RowPlaces, tries: int
    ) -> Operation[bool]:
        """Whether the rows of a refusal are to be sent again: if so, as soon as this returns.

        Args:
            rows: those that the refusal names.
            numbers: of the rows in their partition.
            tries: how often in a row they, or others without progress, were refused.

        Raises:
            PublishRefusedError: they cannot be stored.
            BatchLostError: there was no room for them, or they were lost, for `outageTimeout`.
        """
        if is_lost(refusal.err_code):
            yield from self._patience.wait(self._lost(rows, numbers, refusal), "a write")
            return True
        reason = refusal.code, refusal.err_code
        if not is_passing(*reason):
            self._final.add(reason)
        if tries <= self._options.publish_retries and reason not in self._final:
            yield Pause(self._host.now() + RETRY_PAUSE_S)
            return True
        if refusal.code == NOBODY and not refusal.err_code:
            subject = _subject(rows, refusal.at or 0)
            if (yield from self._is_collected(subject)):
                yield from self._patience.wait(self._refused(rows, numbers, refusal), "a write")
                return True
        self._final.add(reason)
        yield from self._divert(rows, numbers, refusal)
        self._patience.note_progress()  # with these rows; the next ones have time of their own
        return False

    def _is_collected(self, subject: str) -> Operation[bool]:
        """Whether the stream collects a subject, so that only its leader was missing."""
        stream = self._options.stream
        yield from self._control.check_there(stream)
        return (yield from self._control.is_collected(subject, stream))

    def _divert(
        self, rows: OutgoingRows, numbers: RowPlaces, refusal: RowRefusal
    ) -> Operation[None]:
        """The server refused rows for good: send them to the dead-letter subject, or give up."""
        options = self._options
        keeps = options.on_error == "deadLetter" and refusal.code != TOO_MANY_REQUESTS
        if not keeps or is_about_the_stream(refusal.err_code):
            raise self._refused(rows, numbers, refusal)
        frames = rows.frames(b"", 0)
        reason = f"{refusal.text} (error {refusal.err_code})"
        for row in range(len(rows)):
            start, stop = frames[1][row : row + 2]
            letter = dead_letter(bytes(memoryview(frames[0])[start:stop]), reason)
            yield from self._send_letter(int(numbers[row]), letter)
            self.dead_letters += 1

    def _send_letter(self, number: int, letter: DeadLetter) -> Operation[None]:
        """Send a dead letter until it is stored.

        Raises:
            PublishRefusedError: no stream takes it.
            RetryableError: nobody answers for `outageTimeout`.
        """
        options, target = self._options, self._options.dead_letter_subject
        once = Control(self._host, options.connection, "writer", patience_s=0)
        patience = Patience(self._host, options.connection.outage_timeout_s)
        tries = 0
        while True:
            try:
                yield from once.request_message(target, letter.payload, letter.headers)
                return
            except RequestRefusedError as error:
                said = error.code, error.err_code, error.description
                raise refused(number, target, *said) from None
            except PASSING as error:
                tries += isinstance(error, NoRespondersError)
                if tries > options.publish_retries and (yield from self._is_nobodys(once, target)):
                    text = "no stream collects this subject, or JetStream is off"
                    raise refused(number, target, NOBODY, 0, text) from None
                yield from patience.wait(error, "a write")

    def _is_nobodys(self, control: Control, subject: str) -> Operation[bool]:
        """Whether no stream collects a subject."""
        try:
            return not (yield from control.is_collected(subject))
        except PASSING:
            return False  # nobody knows just now
        except ConnectorError:
            return True  # nothing more can be known

    def _refused(
        self, rows: OutgoingRows, numbers: RowPlaces, refusal: RowRefusal
    ) -> PublishRefusedError:
        text, at = refusal.text, refusal.at or 0
        if refusal.at is None and len(rows) > 1:
            text += f" (this row or one of the {len(rows) - 1} after it in its batch)"
        elif len(rows) > 1:
            text += f" (this row, which keeps the {len(rows) - 1} others of its batch out)"
        return refused(int(numbers[at]), _subject(rows, at), refusal.code, refusal.err_code, text)

    def _lost(self, rows: OutgoingRows, numbers: RowPlaces, refusal: RowRefusal) -> BatchLostError:
        first, last, count = numbers[0], numbers[-1], len(rows)
        what = f"row {first} of the partition"
        if count > 1:
            what = f"rows {first} to {last} of the partition, a batch of {count} rows, with headers"
            what += f" and 1 KiB for each some {held_bytes(rows)} bytes"
        what = f"stream '{self._options.stream}' did not take {what}, to '{_subject(rows, 0)}'"
        what += " and others" if count > 1 and not isinstance(rows.subjects, bytes) else ""
        where = ""
        if refusal.err_code == BATCH_INCOMPLETE and refusal.at is not None:
            row, subject = int(numbers[refusal.at]), _subject(rows, refusal.at)
            where = f"The first row that the stream did not take is {row}, to '{subject}'."
        return lost(what, refusal.code, refusal.err_code, refusal.text, where)


def _subject(rows: OutgoingRows, place: int) -> str:
    return bytes(rows.subject_column()[place].as_py()).decode("utf-8", "replace")
