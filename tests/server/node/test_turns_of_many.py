"""Whatever waits for a later turn comes, once and in its order, however little a turn has time for.

Each seed makes a small world: accounts that import from each other, clients with plain
subscriptions, queue groups and rules that deny some of what they listen to, streams in memory; and
budgets of a turn, most of them far too small. Clients publish numbered messages, ask services and
leave at any time. Then turns go on until nothing is left to be done.

What has to be true: there is an end; who stays has heard everything that it listens to, of each
publisher in its order, and of each group one member has; somebody else's PING is answered soon.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, MINUTE
from jetstream_server.config.options import MappingDestination, ServerOptions, SubjectMapping
from jetstream_server.core import answers, deliveries, match
from jetstream_server.core.subject import matches
from jetstream_server.core.wildcard_mapping import WildcardMapping
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.node import late_output, publishing, router, upkeep
from jetstream_server.node import node as node_module
from jetstream_server.node.accounts.domain_mapping import DomainMapping
from jetstream_server.node.accounts.service_imports import ServiceImport
from jetstream_server.node.accounts.service_replies import ResponseTerms
from jetstream_server.node.accounts.stream_imports import StreamImport
from jetstream_server.node.accounts.subject_mappings import SubjectMappings
from jetstream_server.node.auth.auth import User
from jetstream_server.node.auth.permissions import PermissionRules, SubjectRules
from jetstream_server.store.vault import MemoryVault

from tests.node_context import node_context

# The last ones are about what went wrong once.
SEEDS = (*range(200), 209, 212, 279, 329)
SEEDS_OF_THOUSANDS = (*range(10), 93)
TURNS_TO_PONG_MAX = 3
TURNS_WITHOUT_ANY_MAX = 20_000  # messages: nobody may be sent some, and gone clients are answered
_SERVER = -1  # where a number is a client's
NUMBERS = 4  # subjects end with one of so many
DENIED = 2  # the one that some may not be sent
FORBIDDEN = b"plain.3"  # to publish to, for some

_CONNECT = (
    b'CONNECT {"user":"%b","pass":"x","verbose":false,"pedantic":false,"headers":true,'
    b'"no_responders":true,"echo":%b}\r\n'
)
_FRAME = re.compile(rb"(H?)MSG (\S+) (\S+) (?:(\S+) )??(?:(\d+) )?(\d+)\r\n")


@dataclass(slots=True, eq=False)
class Listening:
    """One subscription, and what it has heard.

    Attributes:
        most: messages after which it ends, 0 for no limit.
        leaves: it ends at some time, or its client does.
        is_new: it came when others published already.
        heard: publishers and the numbers of their messages, in the order in which they came.
    """

    who: Somebody
    sid: bytes
    pattern: bytes
    queue: bytes
    most: int = 0
    leaves: bool = False
    is_new: bool = False
    heard: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Somebody:
    """A client.

    Attributes:
        number: which one it is, in what it publishes.
        said: accounts and subjects of what it has published, by number; None for what is refused.
        answered: the answers that it got, by the numbers of what it has asked for.
        answers_due: how many it should get.
    """

    session: Any
    number: int
    account: str
    is_restricted: bool
    echo: bool
    listening: dict[bytes, Listening] = field(default_factory=dict)
    said: list[tuple[str, bytes] | None] = field(default_factory=list)
    answered: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    answers_due: dict[int, list[bytes]] = field(default_factory=dict)
    serves: bool = False
    stays: bool = False
    unparsed: bytes = b""
    is_refused: bool = False  # as soon as all that it has said before is acted on
    is_gone: bool = False

    @property
    def may_part(self) -> bool:
        return not (self.is_gone or self.is_refused or self.stays)


class World:
    """A node with clients, made by chance.

    Args:
        thousands: budgets are those of a server, and there are thousands of messages.
    """

    def __init__(self, make_node: Any, seed: int, *, thousands: bool = False) -> None:
        self.random = random = Random(seed)
        self.thousands = thousands
        denied = [f"*.{DENIED}", f"lonely.x.{DENIED}"]
        rules = PermissionRules(SubjectRules(deny=[FORBIDDEN.decode()]), SubjectRules(deny=denied))
        users = [User(account=name.upper(), name=name, password="x") for name in "abc"]
        users += [
            User(account=name.upper(), name=f"{name}r", password="x", permissions=rules)
            for name in "ab"
        ]
        self.node = make_node(users)
        self.now = 1_700_000_000_000 * MILLISECOND
        for name in "ABC":
            self.node.add_account(name)
        a, b = self.node.accounts["A"], self.node.accounts["B"]
        self.imported = random.choice([b"evt.>", b"in.>", b""])
        if self.imported:
            StreamImport(b, a, WildcardMapping(b"evt.>", self.imported)).open()
        terms = ResponseTerms("stream", 2 * MINUTE)
        service = WildcardMapping(b"svc.*", b"svc.*")
        ServiceImport(b, a, service, terms, random, is_sharing=False).open()
        c = self.node.accounts["C"]
        ServiceImport(c, b, service, terms, random, is_sharing=False).open()
        mapping = SubjectMapping("map.*", (MappingDestination("evt.$1", 100),))
        if random.random() < 0.4:
            a.mappings = SubjectMappings((mapping,), random)
        DomainMapping(a, "hub").subscribe()
        self.has_stream = random.random() < 0.4
        self.clients: list[Somebody] = []
        self.quiet = self.connect("C")
        self.quiet.stays = True
        self.pongs_due = self.wide_acks_due = 0
        self.turns = self.came = 0  # turns, and messages that came to somebody
        if self.has_stream:
            catalog = a.catalog = Catalog(node_context(self.node, a), MemoryVault())
            catalog.recover(self.now)
            Api(catalog).subscribe()
        self._settle()

    # -- clients -----------------------------------------------------------------------------

    def connect(self, account: str, *, is_restricted: bool = False, echo: bool = True) -> Somebody:
        user = account.lower().encode() + b"r" * is_restricted
        session = self.node.open_session("10.0.0.1", 5000, self.now)
        session.feed(_CONNECT % (user, b"true" if echo else b"false"))
        client = Somebody(session, len(self.clients), account, is_restricted, echo)
        self.clients.append(client)
        session.feed(b"SUB inbox.%d.* inbox\r\n" % client.number)
        return client

    def listen(self, who: Somebody, pattern: bytes, queue: bytes = b"", most: int = 0) -> Listening:
        sid = b"%d" % len(who.listening)
        listening = who.listening[sid] = Listening(who, sid, pattern, queue, most)
        who.session.feed(b"SUB %b %b %b\r\n" % (pattern, queue, sid))
        if most:
            who.session.feed(b"UNSUB %b %d\r\n" % (sid, most))
        return listening

    def _pattern(self, account: str) -> bytes:
        random, last = self.random, b"%d" % self.random.randrange(NUMBERS)
        heads = [b"evt", b"plain", b"st"] if account == "A" else [b"in", b"in", b"evt", b"plain"]
        head = random.choice(heads)
        return random.choice(
            [b"%b.>" % head, b"%b.*" % head, b"%b.%b" % (head, last), b"*." + last]
        )

    def populate(self) -> None:
        """Have clients come, who listen."""
        random = self.random
        for _ in range(random.randrange(1, 3) if self.thousands else random.randrange(2, 7)):
            account = random.choice("AAABBC")
            who = self.connect(
                account,
                is_restricted=account != "C" and random.random() < 0.3,
                echo=random.random() < 0.8,
            )
            if account == "C":
                continue
            for _ in range(random.randrange(5)):
                pattern = self._pattern(account)
                queue = random.choice([b"", b"", b"g", b"g", b"h"])
                most = random.randrange(1, 30) if not queue and random.random() < 0.1 else 0
                self.listen(who, pattern, queue, most)
            if random.random() < 0.3:
                pattern = self._pattern(account)
                for _ in range(10 if self.thousands else random.choice([10, 70, 150])):
                    self.listen(who, pattern)
        if not self.thousands and random.random() < 0.5:
            self._share()
        server = self.connect("A")
        server.serves = server.stays = True
        server.session.feed(b"SUB svc.* svc\r\n")
        hub = self.connect("A")
        self.listen(hub, b"$JS.API.x.*", random.choice([b"", b"g"]))
        if random.random() < 0.5:
            lonely = self.connect("A", is_restricted=True)
            self.listen(lonely, b"lonely.x.*")
            lonely.stays = True
        self._settle()
        if self.has_stream:
            self._make_stream()

    def _share(self) -> None:
        """Have a group of which one member stays, and others may leave, as well as those who
        import."""
        stays = self.connect("A")
        self.listen(stays, b"evt.*", b"g")
        stays.stays = True
        for account in "AAB":
            who = self.connect(account)
            for number in range(self.random.choice([0, 20])):
                self.listen(who, b"other.%d" % number)
            heads = [b"evt", self.imported.removesuffix(b".>") or b"in"]
            self.listen(who, heads[account == "B"] + b".*", b"g")

    def _make_stream(self) -> None:
        who = self.connect("A")
        for _ in range(self.random.choice([1, 3, 40])):
            self.listen(who, b"push")
        for _ in range(self.random.choice([2, 40])):
            self.listen(who, b"acks")
        stream = {"name": "S", "subjects": ["st.>"], "storage": "memory"}
        consumer = {
            "stream_name": "S",
            "config": {"deliver_subject": "push", "ack_policy": "none", "durable_name": "P"},
        }
        for subject, body in (
            (b"STREAM.CREATE.S", stream),
            (b"CONSUMER.DURABLE.CREATE.S.P", consumer),
        ):
            text = json.dumps(body).encode()
            who.session.feed(b"PUB $JS.API.%b %d\r\n%b\r\n" % (subject, len(text), text))
            self._settle()
        assert self.node.accounts["A"].catalog.streams["S"].consumers

    # -- what they say -----------------------------------------------------------------------

    def publish(self, who: Somebody) -> None:
        """Have somebody publish some messages in one write."""
        random, said = self.random, bytearray()
        for _ in range(1 if self.thousands else random.randrange(1, 4)):
            kinds = ["evt", "plain", "svc", "lonely"] if who.account != "C" else ["svc"]
            if who.account == "A":
                kinds += ["map", "hub", "evt"]
                if self.has_stream:
                    kinds.append("st")
            kind = random.choice(kinds)
            last = random.randrange(NUMBERS)
            count = random.choice([1, 3, 20, 40])
            if self.thousands:
                count = random.choice([60, 1500, 1500, 3000])
            if kind in ("svc", "lonely", "hub"):
                count = min(count, 60)
            same = random.random() < 0.6
            padding = b" " * random.choice([0, 0, 0, 30, 400])
            for _ in range(count):
                if not same:
                    last = random.randrange(NUMBERS)
                said += self._message(who, kind, last, padding)
        who.session.feed(bytes(said))

    def _message(self, who: Somebody, kind: str, last: int, padding: bytes) -> bytes:
        number = len(who.said)
        subject = shown = b"%b.%d" % (kind.encode(), last)
        reply = b""
        if kind == "hub":
            subject, shown = b"$JS.hub.API.x.%d" % last, b"$JS.API.x.%d" % last
        elif kind == "map" and self.node.accounts["A"].mappings is not None:
            shown = b"evt.%d" % last
        elif kind == "st" and self.has_stream and self.random.random() < 0.7:
            reply = b"acks"
            if self.random.random() < 0.5:
                reply = b"inbox.%d.%d" % (who.number, number)
                who.answers_due[number] = [b"ack"]
            else:
                self.wide_acks_due += 1
        elif kind == "svc":
            reply = b"inbox.%d.%d" % (who.number, number)
            count = self.random.choice([0, 1, 1, 5, 15])
            who.answers_due[number] = [b"%d" % n for n in range(count)]
            padding = b"/%d" % count
        elif kind == "lonely":
            subject = shown = b"lonely.x.%d" % last
            reply = b"inbox.%d.%d" % (who.number, number)
            takers = self.reached(who, who.account, subject)
            who.answers_due[number] = [] if any(takers.values()) else [b"503"]
        refused = who.is_restricted and subject == FORBIDDEN
        who.said.append(None if refused else (who.account, shown))
        payload = b"%d.%d%b" % (who.number, number, padding)
        return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)

    def serve(self, server: Somebody, reply: bytes, payload: bytes) -> None:
        """Answer a request as often as it wants."""
        count = int(payload.partition(b"/")[2])
        said = [b"PUB %b %d\r\n%d\r\n" % (reply, len(b"%d" % n), n) for n in range(count)]
        server.session.feed(b"".join(said) + b"PUB %b 0\r\n\r\n" % reply)

    # -- time goes on ------------------------------------------------------------------------

    def turn(self) -> None:
        node = self.node
        self.turns += 1
        self.now += self.random.choice([0, 0, MILLISECOND])
        node.run(self.now)
        if self.random.random() < 0.7:
            node.release(node.take_held(), self.now)
        for client in self.clients:
            if not client.is_gone and (client is self.quiet or self.random.random() < 0.8):
                self.read(client)
        unread = dict.fromkeys(each for each in node.take_touched() if each.outbox)
        node.put_off(unread)
        if self.pongs_due:
            self.pongs_due += 1
            assert self.pongs_due <= TURNS_TO_PONG_MAX, f"no PONG, turn {self.turns}"
        elif self.random.random() < 0.3:
            self.quiet.session.feed(b"PING\r\n")
            self.pongs_due = 1

    @property
    def is_over(self) -> bool:
        deadline = self.node.next_deadline()
        is_due = deadline is not None and deadline <= self.now + MILLISECOND
        unread = any(client.session.outbox for client in self.clients if not client.is_gone)
        return not (is_due or self.node.has_held or unread)

    def _settle(self) -> None:
        for _ in range(3000):
            if self.is_over:
                return
            self.turn()
        raise AssertionError("there is no end")

    def go_on(self) -> None:
        """Have turns until nothing is left to be done."""
        last, came = self.turns, self.came
        while not self.is_over:
            self.turn()
            if self.came > came:
                last, came = self.turns, self.came
            assert self.turns <= last + TURNS_WITHOUT_ANY_MAX, "there is no end"

    def read(self, client: Somebody) -> None:
        """Have a client read what it is sent."""
        session = client.session
        if not session.outbox:
            return
        data = client.unparsed + session.take_output()
        session.outbox.socket_holds(0)
        at = 0
        while at < len(data):
            if frame := _FRAME.match(data, at):
                size = int(frame[6])
                body = data[frame.end() : frame.end() + size]
                header_size = int(frame[5]) if frame[1] else 0
                self._hear(client, frame, body[:header_size], body[header_size:])
                at = frame.end() + size + 2
                continue
            end = data.index(b"\r\n", at)
            line = data[at:end]
            if line == b"PONG":
                self.pongs_due = 0
            told = (b"INFO", b"PING", b"-ERR 'Permissions", b"-ERR 'Unknown")
            assert line == b"PONG" or line.startswith(told), line
            at = end + 2
        self.node.drained(session)
        if session.closing:
            client.is_gone = True
            self.node.close_session(session, session.closing, self.now)

    def _hear(self, client: Somebody, frame: re.Match[bytes], headers: bytes, body: bytes) -> None:
        sid, reply = frame[3], frame[4]
        self.came += 1
        if sid == b"svc":
            self.serve(client, reply, body)
        elif sid == b"inbox":
            number = int(frame[2].rpartition(b".")[2])
            if b" 503" in headers[:13]:
                body = b"503"
            elif b'"stream"' in body:
                body = b"ack"
            if body:
                client.answered[number].append(body)
        elif client.listening[sid].pattern == b"acks":
            client.listening[sid].heard.append((_SERVER, json.loads(body)["seq"]))
        else:
            who, number = re.match(rb"(\d+)\.(\d+)", body).groups()
            client.listening[sid].heard.append((int(who), int(number)))

    # -- who leaves --------------------------------------------------------------------------

    def part(self) -> None:
        """Have somebody end a subscription, leave, come, or go on under rights that are the
        same."""
        random = self.random
        clients = [each for each in self.clients if each.may_part]
        if not clients:
            return
        who = random.choice(clients)
        what = random.random()
        if what < 0.25:
            if who.listening:
                listening = random.choice(list(who.listening.values()))
                listening.leaves = True
                who.session.feed(b"UNSUB %b\r\n" % listening.sid)
        elif what < 0.35:
            for each in who.listening.values():
                each.leaves = True
            who.session.feed(b"NO SUCH THING\r\n")
            who.is_refused = True
        elif what < 0.6:
            self.read(who)
            for each in who.listening.values():
                each.leaves = True
            who.is_gone = True
            self.node.close_session(who.session, "Client Closed", self.now)
        elif what < 0.8:
            who.session.adopt(who.session.user)
        else:
            newcomer = self.connect(who.account)
            listening = self.listen(newcomer, self._pattern(who.account))
            listening.is_new = True

    # -- what has to be true -----------------------------------------------------------------

    def reached(
        self, publisher: Somebody, account: str, subject: bytes
    ) -> dict[tuple[bytes, str], list[Listening]]:
        """Return whom a message reaches, by the name of their group and where that is."""
        found = defaultdict(list)
        for client in self.clients:
            if client is publisher and not client.echo and client.account == account:
                continue
            for listening in client.listening.values():
                where = account
                names = [subject] if client.account == account else []
                if client.account == "B" and account == "A" and subject.startswith(b"evt."):
                    head = self.imported.removesuffix(b">")
                    names = [head + subject.removeprefix(b"evt.")] if head else []
                if client.account < account and subject.startswith(b"svc."):
                    names, where = [subject], client.account  # as requests are published anew
                for name in names:
                    is_denied = client.is_restricted and name.endswith(b".%d" % DENIED)
                    if matches(listening.pattern, name) and not is_denied:
                        found[listening.queue, where].append(listening)
        return found

    def check(self) -> None:
        expected: dict[Listening, list[tuple[int, int]]] = defaultdict(list)
        grouped: list[tuple[tuple[int, int], list[Listening]]] = []
        heard = Counter(
            (listening, message)
            for client in self.clients
            for listening in client.listening.values()
            for message in listening.heard
        )
        assert not heard or max(heard.values()) == 1, "something has come twice"
        known: dict[tuple[int, str, bytes], dict[tuple[bytes, str], list[Listening]]] = {}
        for client in self.clients:
            for number, said in enumerate(client.said):
                if said is None:
                    continue
                key = (client.number, *said)
                if key not in known:
                    known[key] = self.reached(client, *said)
                for (queue, _), members in known[key].items():
                    if queue:
                        grouped.append(((client.number, number), members))
                        continue
                    for each in members:
                        expected[each].append((client.number, number))
                if said[1].startswith(b"st."):
                    for each in self._pushed_to():
                        expected[each].append((client.number, number))
        for client in self.clients:
            for listening in client.listening.values():
                self._check_listening(listening, expected[listening])
            if not client.is_gone:
                for number, due in client.answers_due.items():
                    assert client.answered[number] == due, (client.number, number)
        for message, members in grouped:
            got = [each for each in members if heard[each, message]]
            # One that had to look at it first may have gone meanwhile.
            may_be_lost = any(each.leaves and each.who.is_restricted for each in members)
            may_be_lost |= any(each.is_new for each in members) or all(
                each.leaves for each in members
            )
            assert len(got) == 1 or (not got and may_be_lost), (message, len(got))

    def _pushed_to(self) -> Iterator[Listening]:
        for client in self.clients:
            for each in client.listening.values():
                if each.pattern == b"push":
                    yield each

    def _check_listening(self, listening: Listening, expected: list[tuple[int, int]]) -> None:
        got, due = defaultdict(list), defaultdict(list)
        for who, number in listening.heard:
            got[who].append(number)
        for who, number in expected:
            due[who].append(number)
        whose = listening.who.number, listening.sid, listening.pattern
        if listening.pattern == b"acks":
            sequences = [number for _, number in listening.heard]
            assert sequences == sorted(sequences), f"{whose}: out of order"
            assert listening.leaves or len(sequences) == self.wide_acks_due, f"{whose}: too few"
            return
        for who, numbers in got.items():
            assert numbers == sorted(numbers), f"{whose}: out of order, of {who}"
            if listening.queue:
                continue
            assert set(numbers) <= set(due[who]), f"{whose}: not for it"
            if listening.is_new:
                assert listening.leaves or numbers == due[who][-len(numbers) :], f"{whose}: {who}"
            else:
                assert numbers == due[who][: len(numbers)], f"{whose}: a gap, of {who}"
        if listening.queue or listening.leaves or listening.is_new:
            return
        count = len(expected)
        if listening.most:
            count = min(count, listening.most)
        assert len(listening.heard) == count, f"{whose}: {len(listening.heard)} of {count}"


def shorten(monkeypatch: pytest.MonkeyPatch, random: Random) -> None:
    """Give turns time for little, of some things or of all."""
    for place, name, values in (
        (deliveries, "DELIVERIES_OF_TURN_MAX", [5, 10, 30, 100, 6000]),
        (deliveries, "SUBJECTS_OF_TURN_MAX", [3, 10, 1250]),
        (deliveries, "CLIENTS_OF_TURN_MAX", [1, 2, 5, 400]),
        (router, "CLIENTS_AT_ONCE_MAX", [1, 3, 200]),
        (router, "COST_AT_ONCE_MAX", [0, 3, 64, 64]),
        (router, "COPIED_UNCOUNTED_BYTES_MAX", [16, 300, 65536]),
        (router, "COPIED_AT_ONCE_BYTES_MAX", [100, 5000, 1 << 22]),
        (router, "_CHOSEN_AT_ONCE", [1, 3, 50]),
        (router, "_UNANSWERED_AT_ONCE", [1, 3, 1000]),
        (router, "ROUTES_MAX", [1, 65536, 65536]),
        (node_module, "OPS_OF_TURN_MAX", [300, 500]),
        (node_module, "READ_OF_TURN_MAX", [3, 30, 2000]),
        (upkeep, "GIVEN_UP_OF_TURN_MAX", [1, 10, 2000]),
        (upkeep, "REVIEWED_OF_TURN_MAX", [1, 10, 1500]),
        (node_module, "UNITS_OF_TURN", [3, 60, 60]),
        (publishing, "MESSAGES_OF_TURN_MAX", [4, 30, 1000]),
        (late_output, "LATE_OF_ACCOUNT_MAX", [3, 5000]),
        (late_output, "_LOOKED_UP_OF_TURN", [2, 1000]),
        (match, "COLLECTED_AT_ONCE_MAX", [1, 5, 20_000]),
        (match, "PIECE_MAX", [1, 4, 2000]),
        (match, "_PATTERNS_ASKED", [0, 16]),
        (answers, "OUTBOX_HIGH_BYTES", [3000, 1 << 20, 1 << 20]),
    ):
        if random.random() < 0.6:
            monkeypatch.setattr(place, name, random.choice(values))


@pytest.fixture
def make(make_node: Any, options: ServerOptions) -> Any:
    """Return a maker of nodes that cut nobody off who reads slowly."""
    return partial(make_node, options=dataclasses.replace(options, max_pending=1 << 30))


def play(make_node: Any, seed: int, *, thousands: bool = False) -> World:
    world = World(make_node, seed, thousands=thousands)
    random = world.random
    world.populate()
    publishers = [each for each in world.clients if each is not world.quiet and not each.serves]
    publishers = random.sample(publishers, min(len(publishers), random.randrange(1, 4)))
    for _ in range(random.randrange(1, 6)):
        for who in publishers:
            if not (who.is_gone or who.is_refused) and random.random() < 0.7:
                world.publish(who)
        for _ in range(random.randrange(6)):
            world.turn()
            if random.random() < 0.2:
                world.part()
    world.go_on()
    world.check()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_comes_once_and_in_its_order(
    make: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    shorten(monkeypatch, Random(seed))
    play(make, seed)


@pytest.mark.parametrize("seed", SEEDS_OF_THOUSANDS)
def test_thousands_come_in_the_turns_of_a_server(make: Any, seed: int) -> None:
    play(make, seed, thousands=True)
