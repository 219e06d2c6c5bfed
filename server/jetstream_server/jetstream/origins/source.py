"""One source of a stream: the messages of another one, under sequences of the stream's own.

Each message keeps, in its header `Nats-Stream-Source`, where it comes from. Apart from that it is
taken like a publish, with the stream's transform, duplicates and limits; only the conditions in its
headers were settled at the origin. A message that is refused comes again and again until the stream
takes it, and holds up those after it: skipping it would lose it.

Messages without special headers go in as one run where the config allows that.

Specification: docs/reference/mirrors.md#sources, and probes of the genuine server.
"""

from __future__ import annotations

from collections.abc import Callable

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.jetstream.configs.stream_config import OriginConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.origins.arrival import Arrival
from jetstream_server.jetstream.origins.copied_headers import copied, disregard, is_special
from jetstream_server.jetstream.origins.feed import Feed
from jetstream_server.jetstream.origins.origin_request import SOURCE
from jetstream_server.jetstream.origins.renaming import Renaming
from jetstream_server.jetstream.origins.source_header import (
    SourcePosition,
    SourceStamp,
    source_key,
)
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.messages.publish_headers import (
    STREAM_SOURCE,
    extended,
    header,
)
from jetstream_server.jetstream.streams.storing.admission import check_size, needs_decisions
from jetstream_server.jetstream.streams.storing.counter import convert_total
from jetstream_server.jetstream.streams.storing.single_storing import take_single
from jetstream_server.protocol.ops import PubRun

CopiedMessage = tuple[bytes, bytes, bytes, bytes]


class Source:
    """One entry of a stream's `sources`. A FeedReader.

    Args:
        progressed: called when something was stored, with the time.

    Attributes:
        config: the entry.
        key: what tells it apart from the others.
        feed: the line from the origin.
    """

    def __init__(
        self,
        contents: Contents,
        context: Context,
        config: OriginConfig,
        progressed: Callable[[int], None],
    ) -> None:
        self.config = config
        self.key = source_key(config)
        seed = f"{contents.name} {context.account} {self.key}"
        self.feed = Feed(context, contents.name, config, SOURCE, seed, self)
        self._contents = contents
        self._context = context
        self._progressed = progressed
        self._renaming = Renaming(config.subject_transforms, self.key)
        self._stamp = SourceStamp(self.key)
        self._position = 0  # the last origin sequence that is stored
        self._identity = b""  # of the origin
        self._is_refused = False  # the last message was; the log tells of the first in a row

    @property
    def position(self) -> int:
        """Return the last origin sequence that is stored."""
        return self._position

    @property
    def identity(self) -> bytes | None:
        """Return the identity of the origin, empty when it is not known yet."""
        return self._identity

    @property
    def is_complete(self) -> bool:
        """Return True, as all that was taken is held: what cannot be copied is refused."""
        return True

    def resume(self, position: SourcePosition) -> None:
        """Go on after the position that a stored message tells."""
        self._position = position.sequence
        self._identity = position.identity.encode()

    def stop(self, *, for_good: bool) -> None:
        """Copy no more."""
        self.feed.stop(for_good=for_good)

    def begin(self, skipped: int, identity: bytes, now: int) -> None:
        """Remember who the origin is."""
        self._identity = identity

    def start_over(self) -> None:
        """Begin with the first message of an origin that was made again."""
        self._position = 0
        self._identity = b""

    # -- copying ---------------------------------------------------------------------------

    def take(self, arrival: Arrival, now: int) -> bool:
        """Store what arrived; what is stored already is passed over."""
        before = self._position
        is_taken = self._take_all(arrival, now)
        if self._position != before:
            self._progressed(now)
        return is_taken

    def _take_all(self, arrival: Arrival, now: int) -> bool:
        run, renaming = arrival.run, self._renaming
        plain: list[CopiedMessage] = []
        sequences: list[int] = []
        for at, sequence in enumerate(arrival.sequences, arrival.start):
            if sequence <= self._position:
                continue
            origin_subject = subject = run.subject(at)
            if renaming:
                subject = renaming.apply(subject)
            headers = run.headers(at)
            if headers:
                headers = copied(headers, but_source=True)
            line = self._stamp.line(sequence, origin_subject, self._identity)
            copy = (subject, b"", extended(headers, line), run.payload(at))
            if not is_special(headers):
                plain.append(copy)
                sequences.append(sequence)
                continue
            if not (self._take_run(plain, sequences, now) and self._take_one(copy, sequence, now)):
                return False
            plain, sequences = [], []
        return self._take_run(plain, sequences, now)

    def _take_run(self, copies: list[CopiedMessage], sequences: list[int], now: int) -> bool:
        """Store messages without special headers."""
        if not copies:
            return True
        contents, run = self._contents, PubRun.of(copies)
        if needs_decisions(contents, run, 0, run.count):
            return all(
                self._take_one(copy, sequence, now)
                for copy, sequence in zip(copies, sequences, strict=True)
            )
        try:
            first = contents.append_run(run, 0, run.count, now)
        except StoreError as failure:
            contents.not_stored(failure)
            return False
        subjects = contents.consumers.subjects(run, 0, run.count)
        contents.after_storing(first, first + run.count - 1, now, subjects)
        self._position = sequences[-1]
        return True

    def _take_one(self, copy: CopiedMessage, sequence: int, now: int) -> bool:
        """Store a message about which a header or the config has something to say."""
        subject, _, headers, payload = copy
        contents = self._contents
        message = Candidate(contents.renamed(subject), b"", headers, payload)
        disregard(message, contents.config)
        try:
            if contents.config.allow_msg_counter:
                origin_subject = header(headers, STREAM_SOURCE).split(b" ")[4]
                counter = origin_subject.decode(errors="replace")  # as in any JSON
                name, spend = self.config.name, contents.spend
                convert_total(contents.store, message, name, counter, spend)
            check_size(contents.config, message)
            take_single(contents, message, now)
        except ApiError as error:
            if not self._is_refused:
                text = f"source '{self.config.name}': message {sequence} refused: {error}"
                self._context.log("WRN", f"stream '{contents.name}': {text}")
            self._is_refused = True
            return False
        self._is_refused = False
        self._position = sequence
        return True
