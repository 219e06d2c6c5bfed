"""What the clients do: publishers, readers and administrators, options drawn from the seed.

A `Program` is one client with one connection at a time. Whatever it asks is a `Request` under a
reply subject of its own; an answer is recorded when the server writes it (`Workload.said`), acted
on when it arrives. Publishes with an id are repeated until answered, as careful writers do; other
requests are given up after a while. Names of consumers are never used twice, those of streams
are, with other subjects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.catalog import Catalog
from jetstream_server.jetstream.consumers.consumer import Consumer

from tests.sim.checkers import (
    Life,
    Published,
    Reader,
    Removal,
    Witness,
    answer_of,
    find_stream,
    live_sequences,
    require,
    uid_of,
)
from tests.sim.network import Frame, Link, Network

PATIENCE_NS = 4 * SECOND
TOKENS = (b"a", b"b", b"c", b"d.e")
STREAMS = 4
LIFE_READERS = 4


@dataclass
class Request:
    """Something a program waits for."""

    kind: str
    program: Program
    reply: bytes
    deadline: int
    life: Life | None = None
    reader: Reader | None = None
    message: Published | None = None
    sequence: int = 0
    removal: Removal | None = None
    had_seen: frozenset[int] = frozenset()
    sid: bytes = b""
    batch: int = 0
    must_end: bool = False
    is_end: bool = False


@dataclass
class Program:
    """One client."""

    number: int
    workload: Workload
    link: Link | None = None
    again_at: int = 0
    requests: dict[bytes, Request] = field(default_factory=dict)
    pulls: dict[bytes, Request] = field(default_factory=dict)  # by sid
    pushes: dict[bytes, tuple[Reader, bytes]] = field(default_factory=dict)  # by sid
    repeats: list[tuple[Life, Published]] = field(default_factory=list)

    @property
    def inbox(self) -> bytes:
        """Return what its inboxes begin with."""
        return b"_INBOX.p%d" % self.number

    def connect(self) -> None:
        """Connect and subscribe again."""
        network = self.workload.network
        link = Link(network, self)
        if self.workload.connect(link):
            self.link = link
            lines = [b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"protocol":1'
                     b',"no_responders":true}\r\n', b"SUB %b.* 1\r\n" % self.inbox]  # fmt: skip
            for sid, (reader, queue) in self.pushes.items():
                lines.append(_sub(reader, queue, sid))
            self.link.send(b"".join(lines))

    def send(self, data: bytes) -> None:
        """Send, or let it be lost while there is no connection."""
        if self.link is not None:
            self.link.send(data)

    def lost(self, link: Link) -> None:
        """The connection is gone, and everything asked on it is uncertain."""
        if self.link is link:
            workload = self.workload
            self.link = None
            self.again_at = workload.now + workload.random.randrange(300 * MILLISECOND)
            for request in list(self.requests.values()):
                workload.give_up(request)
            self.pulls.clear()

    def arrived(self, frame: Frame) -> None:
        """Take a frame."""
        if frame.verb == b"PING":
            self.send(b"PONG\r\n")
        elif frame.verb == b"-ERR":
            raise AssertionError(f"-ERR {frame.payload!r}")
        elif frame.verb in (b"MSG", b"HMSG"):
            self.workload.arrived(self, frame)


def _sub(reader: Reader, queue: bytes, sid: bytes) -> bytes:
    subject = reader.config["deliver_subject"].encode()
    return b"SUB %b %b%b\r\n" % (subject, queue + b" " if queue else b"", sid)


def pub(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return a PUB or HPUB frame."""
    to = b"%b %b" % (subject, reply + b" " if reply else b"")
    if headers:
        sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
        return b"HPUB %b%b\r\n%b%b\r\n" % (to, sizes, headers, payload)
    return b"PUB %b%d\r\n%b\r\n" % (to, len(payload), payload)


class Workload:
    """All programs, and what they know together."""

    def __init__(
        self, witness: Witness, network: Network, random: Random, connect: Callable[[Link], bool]
    ) -> None:
        self.witness = witness
        self.network = network
        self.random = random
        self.connect = connect
        self.programs = [Program(number, self) for number in range(random.randrange(2, 5))]
        self.names: dict[str, Life | None] = dict.fromkeys(f"S{n}" for n in range(STREAMS))
        self.requests: dict[bytes, Request] = {}
        self.is_calm = False
        self._count = 0
        self._drained: set[str] = set()
        self._gone_at: dict[bytes, int] = {}
        self._ids_share = random.choice([0.0, 0.3, 0.9])
        self._big_share = random.choice([0.0, 0.0, 0.02])
        # Each seed likes some things more than others.
        self._wishes: dict[Callable[[Program], None], float] = {
            wish: weight * random.choice([0.2, 1.0, 1.0, 3.0])
            for wish, weight in (
                (self._publish, 30.0), (self._pull, 20.0), (self._make_stream, 3.0),
                (self._make_reader, 4.0), (self._purge, 1.0), (self._delete_message, 1.0),
                (self._get, 3.0), (self._delete_stream, 0.15), (self._delete_reader, 0.4),
                (self._update_stream, 0.7), (self._listen, 3.0), (self._info, 2.0),
            )
        }  # fmt: skip

    @property
    def now(self) -> int:
        """Return the time."""
        return self.network.agenda.clock.now_ns

    def _next(self) -> int:
        self._count += 1
        return self._count

    # -- phases ----------------------------------------------------------------------------

    def act(self) -> None:
        """Let programs do this and that."""
        self._tend()
        random = self.random
        for _ in range(random.randrange(4)):
            program = random.choice(self.programs)
            if program.link is not None:
                wish = random.choices(list(self._wishes), list(self._wishes.values()))[0]
                wish(program)

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
        if any(program.link is None for program in self.programs):
            return
        for index, (_, reader) in enumerate(self._readers()):
            program = self.programs[index % len(self.programs)]
            if reader.name in self._drained:
                continue
            if "deliver_subject" in reader.config:
                self._listen_to(program, reader)
            elif not any(pull.reader is reader for pull in program.pulls.values()):
                self._pull_from(program, reader)
            if turn % 20 == 19:
                self._look_at(program, reader)

    def _readers(self) -> list[tuple[Life, Reader]]:
        return [
            (life, reader)
            for life in self.witness.lives.values()
            if life.is_made and not life.is_leaving and not life.is_gone
            for reader in life.readers.values()
            if reader.made_at and not reader.is_leaving and not reader.is_gone
        ]

    @property
    def is_finished(self) -> bool:
        """Return whether nothing is left to be done."""
        return (
            all(reader.name in self._drained for _, reader in self._readers())
            and not any(program.repeats for program in self.programs)
            and not any(request.kind == "publish" for request in self.requests.values())
        )

    def require_finished(self, catalog: Catalog) -> None:
        """Complain of what did not finish."""
        left = [reader.name for _, reader in self._readers() if reader.name not in self._drained]
        require(not left, "not drained:", [
            (name, consumer.info(self.now)) for stream in catalog.streams.values()
            for name, consumer in stream.consumers.items() if name in left
        ])  # fmt: skip
        require(self.is_finished, "publishes are not answered")
        for life, reader in self._readers():
            stream = find_stream(catalog, life)
            if stream is None or life.retention != "workqueue":
                continue
            consumer = stream.consumers[reader.name]
            assert isinstance(consumer, Consumer)
            if consumer.config.max_deliver < 0:
                stuck = [
                    sequence
                    for sequence in live_sequences(stream)
                    if consumer.wants(life.journal[sequence].subject)
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
                program.send(b"".join(self._publish_one(program, *each) for each in repeats))
        for request in [each for each in self.requests.values() if each.deadline <= now]:
            require(
                not request.must_end, "a pull neither ended nor expired:",
                request.reader.name if request.reader else "", request.batch,
            )  # fmt: skip
            self.give_up(request)

    def give_up(self, request: Request) -> None:
        """Wait no more; a message with an id is sent again."""
        program = request.program
        program.requests.pop(request.reply, None)
        program.pulls.pop(request.sid, None)
        if self.requests.pop(request.reply, None) is None:
            return
        if request.kind == "publish" and request.message is not None and request.life is not None:
            leaving = request.life.is_leaving or request.life.is_gone or not request.life.is_made
            if request.message.message_id and not leaving:
                program.repeats.append((request.life, request.message))

    def _ask(self, kind: str, program: Program, **fields: Any) -> Request:
        reply = b"%b.%d" % (program.inbox, self._next())
        request = Request(kind, program, reply, self.now + PATIENCE_NS, **fields)
        program.requests[reply] = self.requests[reply] = request
        return request

    def _api(
        self, program: Program, verb: str, body: dict[str, Any] | None, kind: str, **fields: Any
    ) -> None:
        request = self._ask(kind, program, **fields)
        payload = orjson.dumps(body) if body is not None else b""
        program.send(pub(b"$JS.API." + verb.encode(), request.reply, b"", payload))

    # -- wishes ----------------------------------------------------------------------------

    def _some_life(self) -> Life | None:
        lives = [
            life
            for life in self.names.values()
            if life is not None and life.is_made and not life.is_gone
        ]
        return self.random.choice(lives) if lives else None

    def _some_reader(self, *, is_push: bool) -> tuple[Life, Reader] | None:
        readers = [
            pair for pair in self._readers() if ("deliver_subject" in pair[1].config) == is_push
        ]
        return self.random.choice(readers) if readers else None

    def _publish(self, program: Program) -> None:
        life, random = self._some_life(), self.random
        if life is None:
            return
        frames: list[bytes] = []
        for _ in range(random.choice([1, 1, 3, 20])):
            frames.append(self._publish_one(program, life, self._message(life)))
        program.send(b"".join(frames))

    def _message(self, life: Life) -> Published:
        random, uid = self.random, self._next()
        fields: list[bytes] = []
        if random.random() < self._ids_share:
            fields.append(b"Nats-Msg-Id: m%d" % uid)
        if random.random() < 0.05:
            fields.append(b"Colour: red")
        subject = life.prefix + b"." + random.choice(TOKENS)
        if random.random() < 0.04:
            expected = max(life.journal, default=0) + random.choice([0, 0, 1])
            fields.append(b"Nats-Expected-Last-Sequence: %d" % expected)
        elif random.random() < 0.04:
            last = [s for s, entry in life.journal.items() if entry.subject == subject]
            fields.append(b"Nats-Expected-Last-Subject-Sequence: %d" % max(last, default=0))
        if life.config.get("allow_rollup_hdrs") and random.random() < 0.05:
            fields.append(b"Nats-Rollup: sub")
        headers = b"NATS/1.0\r\n%b\r\n\r\n" % b"\r\n".join(fields) if fields else b""
        size = random.randrange(60) if random.random() >= self._big_share else 30_000
        message = Published(uid, subject, headers, b"%d:" % uid + b"x" * size)
        self.witness.published[uid] = message
        return message

    def _publish_one(self, program: Program, life: Life, message: Published) -> bytes:
        reply = b""
        if message.message_id or self.random.random() < 0.9:
            reply = self._ask("publish", program, life=life, message=message).reply
        return pub(message.subject, reply, message.headers, message.payload)

    def _make_stream(self, program: Program) -> None:
        name = self.random.choice(list(self.names))
        life = self.names[name]
        if life is not None and not life.is_gone:
            is_late = self.now > life.asked_at + PATIENCE_NS
            if not life.is_made and not life.is_leaving and is_late:
                life.asked_at = self.now
                self._api(program, f"STREAM.CREATE.{name}", life.config, "make", life=life)
            return
        # What was meant for the last one must not arrive at its successor.
        gone = self._gone_at.setdefault(life.prefix, self.now) if life is not None else 0
        if self.now < gone + 2 * PATIENCE_NS:
            return
        prefix = b"%b_%d" % (name.lower().encode(), self._next())
        life = Life(name, prefix, [self._stream_config(name, prefix)], self.now)
        self.names[name] = self.witness.lives[prefix] = life
        self._api(program, f"STREAM.CREATE.{name}", life.config, "make", life=life)

    def _stream_config(self, name: str, prefix: bytes) -> dict[str, Any]:
        random = self.random
        config: dict[str, Any] = {
            "name": name,
            "subjects": [prefix.decode() + ".>"],
            "retention": random.choice(["limits", "limits", "interest", "workqueue", "workqueue"]),
            "storage": random.choice(["file"] * 7 + ["memory"]),
            "duplicate_window": random.choice([2, 30, 120]) * SECOND,
            "allow_direct": True,
            "discard": random.choice(["old", "old", "old", "new"]),
        }
        if config["retention"] == "limits":
            config["allow_rollup_hdrs"] = random.random() < 0.3
            config |= self._limits()
            if config["max_age"]:
                config["duplicate_window"] = min(config["duplicate_window"], config["max_age"])
        return config

    def _limits(self) -> dict[str, Any]:
        random = self.random
        return {
            "max_msgs": random.choice([-1, -1, 5, 50]),
            "max_bytes": random.choice([-1, -1, 3_000]),
            "max_msgs_per_subject": random.choice([-1, -1, 1, 3]),
            "max_age": random.choice([0, 0, 0, 3, 20]) * SECOND,
        }

    def _update_stream(self, program: Program) -> None:
        life = self._some_life()
        if life is None or life.retention != "limits":
            return
        config = life.config | self._limits()
        if config["max_age"]:
            config["duplicate_window"] = min(config["duplicate_window"], config["max_age"])
        life.configs.append(config)
        self._api(program, f"STREAM.UPDATE.{life.name}", config, "update", life=life)

    def _delete_stream(self, program: Program) -> None:
        life = self._some_life()
        # A creation that arrives behind it would make the stream again.
        if life is not None and self.now > life.asked_at + PATIENCE_NS:
            life.is_leaving = True
            self._api(program, f"STREAM.DELETE.{life.name}", None, "delete", life=life)

    def _make_reader(self, program: Program) -> None:
        life = self._some_life()
        if life is None or life.is_leaving or life.is_gone:
            return
        if sum(not reader.is_gone for reader in life.readers.values()) >= LIFE_READERS:
            return
        name = f"C{self._next()}"
        reader = Reader(name, self._reader_config(life, name))
        life.readers[name] = reader
        body = {"stream_name": life.name, "config": reader.config}
        path = f"CONSUMER.CREATE.{life.name}.{name}"
        self._api(program, path, body, "make reader", life=life, reader=reader)

    def _reader_config(self, life: Life, name: str) -> dict[str, Any]:
        random = self.random
        policy = random.choice(["explicit", "explicit", "explicit", "all", "none"])
        if life.retention == "workqueue":
            policy = "explicit"
        config: dict[str, Any] = {
            "name": name, "durable_name": name, "ack_policy": policy,
            "deliver_policy": random.choice(["all", "all", "new", "last_per_subject"]),
        }  # fmt: skip
        if life.retention != "limits":
            config["deliver_policy"] = "all"
        if random.random() < 0.4 or life.retention == "workqueue":
            prefix, token = life.prefix.decode(), random.choice(TOKENS).decode()
            config["filter_subjects"] = [f"{prefix}.{token}"]
        if policy != "none":
            config["ack_wait"] = random.choice([1, 3]) * SECOND
            config["max_ack_pending"] = random.choice([1000, 1000, 5])
            config["max_deliver"] = random.choice([-1, -1, -1, 1, 3])
            if random.random() < 0.2 and config["max_deliver"] != 1:
                config["backoff"] = [SECOND // 2, 2 * SECOND]
        if random.random() < 0.1:
            config["mem_storage"] = True
        if random.random() < 0.3:
            config["deliver_subject"] = f"_PUSH.{name}"
            if random.random() < 0.3:
                config["deliver_group"] = "workers"
            elif random.random() < 0.4:
                config |= {"flow_control": True, "idle_heartbeat": SECOND}
        return config

    def _delete_reader(self, program: Program) -> None:
        readers = self._readers()
        if readers:
            life, reader = self.random.choice(readers)
            reader.is_leaving = True
            path = f"CONSUMER.DELETE.{life.name}.{reader.name}"
            self._api(program, path, None, "delete reader", life=life, reader=reader)

    def _purge(self, program: Program) -> None:
        life, random = self._some_life(), self.random
        if life is None:
            return
        removal = Removal(sequence=0)
        body: dict[str, Any] = {}
        if random.random() < 0.6:
            removal.pattern = life.prefix + b"." + random.choice(TOKENS)
            body["filter"] = removal.pattern.decode()
        last = max(life.journal, default=0)
        if random.random() < 0.5:
            body["seq"] = removal.below = max(last - random.randrange(20), 1)
        elif random.random() < 0.3:
            body["keep"] = removal.keep = random.randrange(1, 4)
        life.removals.append(removal)
        seen = frozenset(life.seen)
        path = f"STREAM.PURGE.{life.name}"
        self._api(program, path, body, "purge", life=life, removal=removal, had_seen=seen)

    def _delete_message(self, program: Program) -> None:
        life = self._some_life()
        if life is None or not life.seen:
            return
        sequence = self.random.choice(list(life.seen))
        removal = Removal(sequence=sequence)
        life.removals.append(removal)
        body = {"seq": sequence, "no_erase": self.random.random() < 0.7}
        path = f"STREAM.MSG.DELETE.{life.name}"
        self._api(
            program, path, body, "purge", life=life, removal=removal,
            had_seen=frozenset([sequence]),
        )  # fmt: skip

    def _get(self, program: Program) -> None:
        life = self._some_life()
        if life is None:
            return
        body: dict[str, Any] = {"seq": self.random.randrange(1, max(life.journal, default=0) + 2)}
        if self.random.random() < 0.5:
            body = {"last_by_subj": (life.prefix + b"." + self.random.choice(TOKENS)).decode()}
        request = self._ask("get", program, life=life)
        path = b"$JS.API.DIRECT.GET." + life.name.encode()
        program.send(pub(path, request.reply, b"", orjson.dumps(body)))

    def _info(self, program: Program) -> None:
        life = self._some_life()
        if life is not None:
            self._api(program, f"STREAM.INFO.{life.name}", None, "info", life=life)
            for reader in life.readers.values():
                self._look_at(program, reader, life)

    def _look_at(self, program: Program, reader: Reader, life: Life | None = None) -> None:
        life = life or next(owner for owner, other in self._readers() if other is reader)
        path = f"CONSUMER.INFO.{life.name}.{reader.name}"
        self._api(program, path, None, "reader info", life=life, reader=reader)

    def _pull(self, program: Program) -> None:
        chosen = self._some_reader(is_push=False)
        if chosen is not None and len(program.pulls) < 20:
            self._pull_from(program, chosen[1])

    def _pull_from(self, program: Program, reader: Reader) -> None:
        random = self.random
        life = next(life for life, other in self._readers() if other is reader)
        sid = b"%d" % (1000 + self._next())
        batch = random.choice([1, 5, 50])
        request = self._ask("pull", program, life=life, reader=reader, sid=sid, batch=batch)
        body: dict[str, Any] = {"batch": batch, "expires": random.choice([1, 2]) * SECOND}
        if random.random() < 0.2:
            body["no_wait"] = True
        if random.random() < 0.2:
            body["max_bytes"] = random.choice([100, 2000])
        if random.random() < 0.1:
            body["idle_heartbeat"] = SECOND // 2
        request.must_end = self.is_calm
        program.pulls[sid] = request
        path = f"$JS.API.CONSUMER.MSG.NEXT.{life.name}.{reader.name}".encode()
        inbox = b"_PULL." + request.reply
        # Statuses come to the inbox of the pull; so does everything else, by its sid.
        self.requests[inbox] = self.requests.pop(request.reply)
        del program.requests[request.reply]
        request.reply = inbox
        program.requests[inbox] = request
        program.send(b"SUB %b %b\r\n" % (inbox, sid) + pub(path, inbox, b"", orjson.dumps(body)))

    def _listen(self, program: Program) -> None:
        chosen = self._some_reader(is_push=True)
        if chosen is None:
            return
        _, reader = chosen
        sids = [sid for sid, (other, _) in program.pushes.items() if other is reader]
        if sids and self.random.random() < 0.5:
            del program.pushes[sids[0]]
            program.send(b"UNSUB %b\r\n" % sids[0])
        else:
            self._listen_to(program, reader)

    def _listen_to(self, program: Program, reader: Reader) -> None:
        queue = str(reader.config.get("deliver_group", "")).encode()
        for each in self.programs:
            for other, _ in each.pushes.values():
                if other is reader and (each is program or not queue):
                    return
        sid = b"%d" % (1000 + self._next())
        program.pushes[sid] = (reader, queue)
        program.send(_sub(reader, queue, sid))

    # -- the server writes -----------------------------------------------------------------

    def said(self, frame: Frame) -> None:
        """Record what the server says when it says it."""
        witness = self.witness
        if frame.reply.startswith(b"$JS.ACK."):
            witness.delivered(frame, self.now)
            return
        request = self.requests.get(frame.subject)
        if request is None or request.life is None or frame.status == b"503":
            return
        life, reader = request.life, request.reader
        if request.kind == "ack" and reader is not None:
            # A termination of a message that was given up on changes nothing (as in NATS).
            if request.is_end and reader.config.get("max_deliver", -1) > 0:
                return
            reader.answered.setdefault(request.sequence, self.now)
            if life.retention == "workqueue":
                life.gone.add(request.sequence)
        elif request.kind == "get" and not frame.status and frame.headers:
            self._said_get(life, frame)
        elif request.kind == "publish" and request.message is not None:
            self._said_pub_ack(life, request.message, answer_of(frame))
        elif request.kind not in ("get", "pull", "ack"):
            self._said_api(request, life, reader, answer_of(frame))

    def _said_pub_ack(self, life: Life, message: Published, answer: dict[str, Any]) -> None:
        require(answer["stream"] == life.name, "answered by another stream")
        if "error" in answer:
            self.witness.count("refused publishes")
            return
        self.witness.count("duplicates" if answer.get("duplicate") else "acks")
        self.witness.saw(life, answer["seq"], message.uid)

    def _said_get(self, life: Life, frame: Frame) -> None:
        fields = dict(
            line.split(b": ", 1) for line in frame.headers.split(b"\r\n")[1:] if b": " in line
        )
        uid = uid_of(frame.payload)
        message = self.witness.published[uid]
        owner = self.witness.life_of(message.subject)
        require(message.payload == frame.payload, life.name, "a get returned other bytes")
        require(fields[b"Nats-Subject"] == message.subject, "a get returned another subject")
        if owner is not None:
            self.witness.count("gets")
            self.witness.saw(owner, int(fields[b"Nats-Sequence"]), uid)

    def _said_api(
        self, request: Request, life: Life, reader: Reader | None, answer: dict[str, Any]
    ) -> None:
        error = answer.get("error")
        self.witness.count(f"{request.kind}{' refused' if error else ''}")
        if error:
            missing = error["err_code"] in (10059, 10014)
            if request.kind == "delete" and missing:
                life.is_gone = True
            elif request.kind == "delete reader" and missing and reader is not None:
                reader.is_gone = True
            elif request.kind == "make reader" and reader is not None:
                reader.is_gone = not reader.made_at
            return
        match request.kind:
            case "make":
                life.is_made = True
            case "delete":
                life.is_gone = True
            case "make reader" if reader is not None:
                reader.made_at = self.now
            case "delete reader" if reader is not None:
                reader.is_gone = True
            case "purge" if request.removal is not None and not request.removal.keep:
                life.gone.update(
                    sequence
                    for sequence in request.had_seen
                    if sequence in life.journal
                    and request.removal.covers(sequence, life.journal[sequence].subject)
                )

    # -- and it arrives --------------------------------------------------------------------

    def arrived(self, program: Program, frame: Frame) -> None:
        """Act on a frame."""
        if frame.reply.startswith(b"$JS.ACK."):
            self._arrived_delivery(program, frame)
            return
        request = self.requests.get(frame.subject)
        if frame.status == b"100" and frame.reply:
            program.send(pub(frame.reply, b"", b"", b""))
        if request is None or frame.status == b"100":
            return
        if request.kind == "pull":
            self._end_pull(request)
            return
        del self.requests[frame.subject]
        program.requests.pop(frame.subject, None)
        if request.kind == "reader info" and self.is_calm and request.reader is not None:
            answer = answer_of(frame)
            if not answer.get("num_pending", 1) and not answer.get("num_ack_pending", 1):
                self._drained.add(request.reader.name)

    def _end_pull(self, request: Request) -> None:
        program = request.program
        request.must_end = False
        if request.sid in program.pulls:
            program.send(b"UNSUB %b\r\n" % request.sid)
        self.give_up(request)

    def _arrived_delivery(self, program: Program, frame: Frame) -> None:
        pull = program.pulls.get(frame.sid)
        if pull is not None:
            pull.batch -= 1
            if not pull.batch:
                self._end_pull(pull)
        life = self.witness.life_of(frame.subject)
        tokens = frame.reply.split(b".")
        reader = life.readers.get(tokens[3].decode()) if life is not None else None
        if life is None or reader is None or reader.policy == "none":
            return
        sequence, chance = int(tokens[5]), self.random.random()
        if self.is_calm or chance < 0.35:
            self._ack(program, life, reader, sequence, frame.reply, b"+ACK", is_asked=True)
        elif chance < 0.6:
            self._ack(program, life, reader, sequence, frame.reply, b"", is_asked=False)
        elif chance < 0.68:
            program.send(pub(frame.reply, b"", b"", self.random.choice(_NAKS)))
        elif chance < 0.72:
            program.send(pub(frame.reply, b"", b"", b"+WPI"))
        elif chance < 0.76 and reader.policy == "explicit":
            self._ack(program, life, reader, sequence, frame.reply, b"+TERM", is_asked=True)

    def _ack(
        self, program: Program, life: Life, reader: Reader, sequence: int, to: bytes, body: bytes,
        *, is_asked: bool,
    ) -> None:  # fmt: skip
        reader.acks.add(sequence)
        reply = b""
        if is_asked:
            reply = self._ask("ack", program, life=life, reader=reader, sequence=sequence).reply
            self.requests[reply].is_end = body == b"+TERM"
        program.send(pub(to, reply, b"", body))


_NAKS = (b"-NAK", b'-NAK {"delay": 700000000}')
