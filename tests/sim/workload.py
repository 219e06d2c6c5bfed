"""All clients together: what they wish for, in which phase, and what they wait for.

Each module of wishes (`publishing`, `batches`, `stream_wishes`, `reader_wishes`, `reading`,
`transfers`) has functions of a program that wishes. How often which one comes is drawn from the
seed. Names of consumers are never used twice, those of streams are, with other subjects.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from random import Random
from typing import Any

from jetstream_server.jetstream.consumers.consumer import Consumer

from tests.sim import batches, publishing, reader_wishes, reading, stream_wishes, transfers
from tests.sim.copies import uncopied
from tests.sim.life import Life, Reader, require
from tests.sim.network import Frame, Link, Network
from tests.sim.program import PATIENCE_NS, Program, Request, answer_of, pub
from tests.sim.witness import Catalogs, Witness, find_stream, live_sequences

STREAMS = 5
_DRAINED_LOOKS = 20

Wish = Callable[["Workload", Program], None]

_WISHES: tuple[tuple[Wish, float], ...] = (
    (publishing.publish, 30.0),
    (batches.publish_atomically, 3.0),
    (batches.publish_fast, 2.0),
    (reading.pull, 20.0),
    (reading.listen, 3.0),
    (stream_wishes.make_stream, 4.0),
    (stream_wishes.update_stream, 0.7),
    (stream_wishes.delete_stream, 0.2),
    (stream_wishes.purge, 1.0),
    (stream_wishes.delete_message, 1.0),
    (stream_wishes.get, 3.0),
    (stream_wishes.look, 1.0),
    (reader_wishes.make_reader, 4.0),
    (reader_wishes.update_reader, 0.8),
    (reader_wishes.pause_reader, 0.5),
    (reader_wishes.reset_reader, 0.3),
    (reader_wishes.unpin_reader, 0.5),
    (reader_wishes.delete_reader, 0.4),
    (transfers.snapshot, 0.4),
    (transfers.restore, 0.3),
)


class Workload:
    """All programs, and what they know together.

    Attributes:
        is_plain: streams have nothing but limits and retention; in some runs, so that these get
            all the attention.
        is_calm: only what was begun is finished.
        gone_at: by token of a stream, since when it is known to be gone.
        archives: snapshots that arrived whole.
        doubtful: streams of which nobody knows whether they were restored.
    """

    def __init__(
        self,
        witness: Witness,
        network: Network,
        random: Random,
        connect: Callable[[Link], bool],
        accounts: list[str],
    ) -> None:
        self.witness = witness
        self.network = network
        self.random = random
        self.connect = connect
        count = random.randrange(2, 5)
        self.programs = [Program(n, accounts[n % len(accounts)], self) for n in range(count)]
        self.names = [f"S{n}" for n in range(STREAMS)]
        self.requests: dict[bytes, Request] = {}
        self.gone_at: dict[bytes, int] = {}
        self.archives: list[transfers.Archive] = []
        self.doubtful: list[Life] = []
        self.is_calm = False
        self.is_plain = random.random() < 0.2
        self.ids_share = random.choice([0.0, 0.3, 0.9])
        self._big_share = random.choice([0.0, 0.0, 0.02])
        self._number = 0
        self._drained: dict[str, int] = {}  # the last message there was when nothing was left
        # Each seed likes some things more than others.
        self._wishes = [wish for wish, _ in _WISHES]
        self._weights = [*accumulate(w * random.choice([0.2, 1.0, 1.0, 3.0]) for _, w in _WISHES)]

    @property
    def now(self) -> int:
        """Return the time."""
        return self.network.agenda.clock.now_ns

    def next_number(self) -> int:
        """Return a number that nothing else has."""
        self._number += 1
        return self._number

    def payload_size(self) -> int:
        """Return how large a message is to be."""
        random = self.random
        return random.randrange(60) if random.random() >= self._big_share else 30_000

    def counted(self, kind: str, frame: Frame) -> bool:
        """Count the answer to a request; return whether it was granted."""
        error = answer_of(frame).get("error")
        self.witness.count(f"{kind} refused" if error else kind)
        return not error

    # -- choosing --------------------------------------------------------------------------

    def some_life(
        self,
        program: Program,
        fits: Callable[[Life], bool] = lambda life: True,
        *,
        is_made: bool = True,
    ) -> Life | None:
        """Return one of the streams that a program can reach; None when none fits."""
        newest = (self.witness.life(program.account, name) for name in self.names)
        lives = [
            life
            for life in newest
            if life is not None and life.is_made == is_made and not life.is_gone and fits(life)
        ]
        return self.random.choice(lives) if lives else None

    def readers(self) -> list[tuple[Life, Reader]]:
        """Return every consumer that is there, as far as anybody knows."""
        return [
            (life, reader)
            for life in self.witness.lives
            if life.is_usable
            for reader in life.readers.values()
            if reader.made_at and not reader.is_leaving and not reader.is_gone
        ]

    # -- phases ----------------------------------------------------------------------------

    def act(self) -> None:
        """Let programs do this and that."""
        self._tend()
        random = self.random
        for _ in range(random.randrange(4)):
            program = random.choice(self.programs)
            if program.is_connected:
                wish = random.choices(self._wishes, cum_weights=self._weights)[0]
                wish(self, program)

    def trouble(self) -> None:
        """Break a connection, or let a client stop reading for a while."""
        program = self.random.choice(self.programs)
        if program.link is not None:
            self.witness.count("connection troubles")
            if self.random.random() < 0.7:
                program.link.break_off()
            else:
                program.link.is_asleep = True

    def calm_down(self) -> None:
        """From now on only what was begun is finished."""
        self.is_calm = True

    def act_calmly(self, turn: int) -> None:
        """Repeat what was not answered, and read every consumer to its end."""
        self._tend()
        if not all(program.is_connected for program in self.programs):
            return
        for index, (life, reader) in enumerate(self.readers()):
            if reader.name in self._drained:
                continue
            here = [program for program in self.programs if program.account == life.account]
            program = here[index % len(here)]
            if reader.is_push:
                reading.listen_to(self, program, reader)
            elif not any(pull.reader is reader for pull in program.pulls.values()):
                reading.pull_from(self, program, life, reader)
            if turn % _DRAINED_LOOKS == _DRAINED_LOOKS - 1:
                self._look_at(program, life, reader)

    def _look_at(self, program: Program, life: Life, reader: Reader) -> None:
        last = max(life.journal, default=0)  # what a schedule adds later is nobody's task any more

        def arrived(frame: Frame) -> bool:
            answer = answer_of(frame)
            if not answer.get("num_pending", 1) and not answer.get("num_ack_pending", 1):
                self._drained[reader.name] = last
            return True

        path = f"CONSUMER.INFO.{life.name}.{reader.name}"
        program.ask_api(path, None, "reader info", arrived=arrived)

    def is_finished(self, catalogs: Catalogs) -> bool:
        """Return whether nothing is left to be done."""
        return (
            all(reader.name in self._drained for _, reader in self.readers())
            and not any(program.repeats for program in self.programs)
            and not any(request.kind == "publish" for request in self.requests.values())
            and not uncopied(self.witness, catalogs)
        )

    def require_finished(self, catalogs: Catalogs) -> None:
        """Complain of what did not finish."""
        left = [reader.name for _, reader in self.readers() if reader.name not in self._drained]
        require(not left, "not drained:", [
            (name, consumer.info(self.now)) for catalog in catalogs.values()
            for stream in catalog.streams.values()
            for name, consumer in stream.consumers.items()
            if name in left and isinstance(consumer, Consumer)
        ])  # fmt: skip
        missing = uncopied(self.witness, catalogs)
        require(not missing, "not copied:", missing[:3])
        require(self.is_finished(catalogs), "publishes are not answered")
        for life, reader in self.readers():
            stream = find_stream(catalogs, life)
            if stream is None or life.retention != "workqueue":
                continue
            consumer = stream.consumers[reader.name]
            assert isinstance(consumer, Consumer)
            if not reader.may_give_up and not reader.was_reset:
                stuck = [
                    sequence
                    for sequence in live_sequences(stream)
                    if sequence <= self._drained[reader.name]
                    and consumer.wants(life.journal[sequence].subject)
                ]
                require(not stuck, "work queue", life.name, consumer.name, "keeps", stuck)

    def _tend(self) -> None:
        now = self.now
        for program in self.programs:
            if program.link is None and now >= program.again_at:
                program.connect()
            elif program.link is not None and (self.is_calm or self.random.random() < 0.05):
                program.link.wake_up()
            if program.link is not None and program.repeats:
                repeats, program.repeats = program.repeats, []
                program.send(b"".join(repeat() for repeat in repeats))
            self._clear_up(program)
            for pull in list(program.pulls.values()):
                overdue = pull.request.deadline <= now
                require(
                    not (overdue and pull.must_end), "a pull neither ended nor expired:",
                    pull.reader.name, pull.left,
                )  # fmt: skip
                if overdue:
                    del program.pulls[pull.sid]
        for request in [each for each in self.requests.values() if each.deadline <= now]:
            self.give_up(request)

    def _clear_up(self, program: Program) -> None:
        """Delete what may have been restored or not."""
        doubtful = [life for life in self.doubtful if life.account == program.account]
        if not program.is_connected or not doubtful:
            return
        life = doubtful[0]
        if self.now < life.asked_at + 3 * PATIENCE_NS:
            return
        self.doubtful.remove(life)

        def said(frame: Frame) -> None:
            if self.counted("clear up", frame) or stream_wishes.error_code(frame) == 10059:
                life.is_gone = True

        program.ask_api(
            f"STREAM.DELETE.{life.name}", None, "clear up", said=said,
            lost=lambda: self.doubtful.append(life),
        )  # fmt: skip

    def give_up(self, request: Request) -> None:
        """Wait no more."""
        request.program.requests.pop(request.reply, None)
        if self.requests.pop(request.reply, None) is not None:
            request.lost()

    # -- frames ----------------------------------------------------------------------------

    def said(self, link: Link, frame: Frame) -> None:
        """Record what the server says when it says it."""
        account = _account_of(link)
        if frame.reply.startswith(b"$JS.ACK."):
            self.witness.delivered(account, frame, self.now)
        elif frame.subject.startswith(b"REP."):
            self.witness.republished(account, frame)
        elif frame.status != b"503":
            request = self._request(frame)
            if request is not None and request.program.account == account:
                request.said(frame)

    def arrived(self, program: Program, frame: Frame) -> None:
        """Act on a frame."""
        if frame.reply.startswith(b"$JS.ACK."):
            reading.delivery_arrived(self, program, frame)
            return
        request = self._request(frame)
        if frame.status == b"100" and frame.reply:
            program.send(pub(frame.reply, b"", b"", b""))
        if request is None or frame.status == b"100":
            return
        if frame.status == b"503" or request.arrived(frame):
            self.requests.pop(request.reply, None)
            program.requests.pop(request.reply, None)

    def _request(self, frame: Frame) -> Request | None:
        subject = frame.subject
        if subject.endswith(b".$FI"):
            subject = subject.rsplit(b".", 5)[0]
        return self.requests.get(subject)


def _account_of(link: Link) -> str:
    client: Any = link.client
    return str(client.account)
