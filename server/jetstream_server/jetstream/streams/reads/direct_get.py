"""Direct get: stored messages as plain messages, without JSON around them.

A `Receiver` on `$JS.API.DIRECT.GET.<stream>` (selectors in a JSON body) and on
`$JS.API.DIRECT.GET.<stream>.>` (the last message of the subject in the request). A single message
is answered by one message; `batch` and `multi_last` by many and an end marker, which leave in large
buffers when the reply leads to one client, a slice in each turn (`direct_search.py`). Refusals are
statuses. Specification: docs/reference/streams.md#direct-get, and probes of the genuine server.
"""

from __future__ import annotations

from array import array

from jetstream_server import API_LEVEL
from jetstream_server.base.errors import StoreError
from jetstream_server.core.answers import Answers
from jetstream_server.core.subscription import Receiver, Stretch
from jetstream_server.core.workload import UNIT_BYTES, Workload
from jetstream_server.jetstream.output import Output
from jetstream_server.jetstream.streams.messages.publish_headers import header
from jetstream_server.jetstream.streams.reads.direct_replies import DirectReplies
from jetstream_server.jetstream.streams.reads.direct_search import DirectSearch, Steps
from jetstream_server.jetstream.streams.reads.direct_selection import Selection, decode
from jetstream_server.jetstream.streams.reads.sliced_answer import SlicedAnswer
from jetstream_server.jetstream.wire.go_json import READ_BYTES_OF_UNIT
from jetstream_server.kernels.single_gets import encode_found, sequences_asked, subjects_asked
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.ports import MessageStore

PREFIX = b"$JS.API.DIRECT.GET."
# A stream and its mirrors share the requests.
QUEUE = b"_sys_"

_REQUIRED_LEVEL = b"Nats-Required-Api-Level"

# So many requests that say where their message is are looked at together.
_BULK_MAX = 2048

_SEARCH_UNITS = 2  # of a request that does not say where its message is

_EMPTY = b"408 Empty Request"
_MALFORMED = b"408 Malformed Request"
_BAD = b"408 Bad Request"
_REQUIRED = b"412 Required Api Level"


class DirectGet:
    """Answers the direct gets of one stream.

    Args:
        stream: the stream's name, as the answers show it.
        store: its messages.
        output: where answers go.
        workload: tells whether a turn has time for a request.
        asked_of: the stream that requests name: the origin when a mirror answers for it.
    """

    def __init__(
        self,
        stream: str,
        store: MessageStore,
        output: Output,
        workload: Workload,
        *,
        asked_of: str = "",
    ) -> None:
        self._stream = stream.encode()
        address = PREFIX + (asked_of or stream).encode()
        self._prefix_bytes = len(address) + 1
        self._patterns = (address, address + b".>")
        self._store = store
        self._search = DirectSearch(self._stream, store, workload)
        self._output = output
        self._workload = workload

    @property
    def interest(self) -> dict[tuple[bytes, bytes], Receiver]:
        """Return what to subscribe it to: subjects with their queue group."""
        return {(pattern, QUEUE): self for pattern in self._patterns}

    def receive(self, stretch: Stretch) -> None:
        """Answer requests as far as there is room and time; one without a reply has no effect."""
        run, index, stop, answers = stretch.run, stretch.start, stretch.stop, stretch.answers
        if answers is not None and answers.postponed:  # something that was asked before
            answers.postpone(stretch.postponed_from(index))
            return
        while index < stop:
            end, reply, target = self._output.reply_stretch(run, index, stop)
            if reply:
                replies = DirectReplies(self._output, target, answers)
                index, sliced = self._answer_some(replies, run, index, end, answers)
                replies.send()
                if sliced is not None:
                    sliced.postpone()
                if answers is not None and (index < end or not answers.room_bytes or sliced):
                    if index < stop:
                        answers.postpone(stretch.postponed_from(index))
                    if sliced is None and answers.room_bytes:
                        self._workload.wait(answers.look_again, answers)
                    return
            index = end

    def _answer_some(
        self, replies: DirectReplies, run: PubRun, index: int, stop: int, answers: Answers | None
    ) -> tuple[int, SlicedAnswer | None]:
        """Answer requests of one client, those that ask for a sequence or a subject together.

        Returns:
            The first one that there was no room or time for, and the one before it if that has yet
            to be answered to the end.
        """
        together, workload = replies.has_headers, self._workload
        while index < stop and replies.room_bytes:
            if together:
                try:
                    asked = self._asked(run, index, min(stop, index + _BULK_MAX))
                    if asked:
                        index = self._answer_found(replies, run, index, asked)
                        continue
                except StoreError:
                    together = False  # then each one is told
            body = run.payload(index)
            if answers is not None and not workload.takes(1 + len(body) / UNIT_BYTES, answers):
                break
            sliced = self._answer(replies, run, index, body, answers)
            index += 1
            if sliced is not None:
                return index, sliced
        return index, None

    def _asked(self, run: PubRun, index: int, stop: int) -> array[int]:
        """Return the sequences asked for by the first requests that name one, or a subject; 0 where
        the subject has none."""
        given = run.chunk, run.fields, index, stop, self._prefix_bytes - 1
        asked = sequences_asked(*given)
        return asked or self._store.subject_lasts(subjects_asked(*given))

    def _answer_found(
        self, replies: DirectReplies, run: PubRun, index: int, asked: array[int]
    ) -> int:
        """Answer those that there is room for; return the first request after them."""
        assert replies.target is not None, "the caller looked"
        buffers, positions = self._store.locate(asked, replies.room_bytes)
        at, count = 0, len(buffers)
        found = asked[:count]
        while at < count:
            data, taken = encode_found(
                buffers=buffers,
                positions=positions,
                sequences=found,
                first=at,
                chunk=run.chunk,
                fields=run.fields,
                start=index + at,
                sid=replies.target.sid,
                stream=self._stream,
            )
            if taken:
                replies.add_frames(data, taken)
            at += taken
            if at < count:  # it is not there
                # By a sequence or a subject, which takes no second slice.
                self._answer(replies, run, index + at, run.payload(index + at), None)
                at += 1
        return index + count

    def _answer(
        self,
        replies: DirectReplies,
        run: PubRun,
        index: int,
        body: bytes,
        answers: Answers | None,
    ) -> SlicedAnswer | None:
        """Answer one request; return it if the rest of its answer is for other turns."""
        reply, subject = run.reply(index), run.subject(index)[self._prefix_bytes :]
        begun = self._begin(replies, reply, subject, run.headers(index), body)
        if isinstance(begun, bytes):
            replies.refuse(reply, begun)
            return None
        sliced = SlicedAnswer(replies, reply, begun, answers, self._workload)
        self._workload.spend(_SEARCH_UNITS)
        return None if sliced.go_on() else sliced

    def _begin(
        self, replies: DirectReplies, reply: bytes, subject: bytes, headers: bytes, body: bytes
    ) -> Steps | bytes:
        """Answer one request at once, if it names its message; return the status line of a refusal,
        empty for none, or the steps that answer it."""
        if headers and not _is_level_met(header(headers, _REQUIRED_LEVEL)):
            return _REQUIRED
        if not body and not subject:
            return _EMPTY
        if len(body) > READ_BYTES_OF_UNIT:
            self._workload.spend(2 * len(body) / READ_BYTES_OF_UNIT)
        wanted = decode(body) if body else Selection()
        if wanted is None:
            return _MALFORMED
        if subject:
            if not wanted.is_empty or wanted.batch:
                return _BAD
            wanted.last_by_subj = subject.decode("utf-8", "surrogateescape")
        if wanted.is_empty:
            return _EMPTY
        if wanted.is_contradictory:
            return _BAD
        search = self._search
        if wanted.multi_last:
            return search.multi_last(replies, reply, wanted)
        if wanted.batch:
            return search.batch(replies, reply, wanted)
        if wanted.names_message:
            return search.named(replies, reply, wanted)
        if wanted.last_by_subj:
            return search.newest(replies, reply, wanted)
        return search.following(replies, reply, wanted)


def _is_level_met(value: bytes) -> bool:
    """Tell whether this server has the API level that a request requires."""
    if not value:
        return True
    try:
        return int(value) <= API_LEVEL
    except ValueError:
        return False
