"""Everything that input or time sets going trips once, wherever it is, and the server goes on.

The places are found in the code; what drives them is one long day in the life of a server, the same
for all. A receiver or timer that is new, and that this day has no use for, fails here.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.account_streams import AccountStreams
from jetstream_server.base.clock import SECOND
from jetstream_server.config.load import load
from jetstream_server.core.containment import Containment
from jetstream_server.core.fault_domains import Domain, row_of
from jetstream_server.jetstream import remains
from jetstream_server.jetstream.api import streams as api_streams
from jetstream_server.jetstream.api.request import ROUTES, Route
from jetstream_server.jetstream.consumers import late_endings
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.streams import interest
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.monitor.claims_services import ClaimsServices
from jetstream_server.monitor.server_commands import ServerCommands
from jetstream_server.monitor.system_events import SystemEvents
from jetstream_server.monitor.system_services import SystemServices
from jetstream_server.node import session as sessions
from jetstream_server.node.accounts.account_changes import AccountChanges
from jetstream_server.node.auth.auth import Authenticator
from jetstream_server.node.auth.users import users_of
from jetstream_server.node.node import Node
from jetstream_server.node.reload import arrange_accounts, reload

from tests.contained import Peer, World
from tests.planted import PlantedError, plant, planted
from tests.server.core.test_fault_domains import classes, driven

CONFIG = """
accounts {{
  A {{ jetstream: enabled, users: [{{user: a, password: x}}],
       exports: [{{stream: "news.>"}},
                 {{service: "help", response_threshold: 2s,
                   latency: {{sampling: 100, subject: "told"}}}}] }}
  B {{ users: [{{user: b, password: x}}],
       imports: [{{stream: {{account: A, subject: "news.>"}}, prefix: "from"}},
                 {{service: {{account: A, subject: "help"}}}}] }}
  X {{ jetstream: enabled, users: [{{user: x, password: x}}] }}
  SYS {{ users: [{{user: s, password: x}}] }}
}}
system_account: SYS
jetstream {{ store_dir: "{folder}", domain: "hub" }}
ping_interval: "3s"
"""
# Nothing of this account is ever planted.
WITNESS = "X"


class Whole(World):
    """A server as `server.py` puts it together, but for the sockets."""

    served = 0  # messages of the witness

    def start(self) -> None:
        """Start."""
        config = self.path / "server.conf"
        config.write_text(CONFIG.format(folder=self.path / "store"))
        options = load(str(config))
        note = lambda level, text: self.log.append((level, text))  # noqa: E731
        self.containment = Containment(note)
        self.node = node = Node(
            options,
            Authenticator(users_of(options)),
            Random(7),
            note,
            self.containment,
            port=0,
        )
        arrange_accounts(node, options)
        node.chronicle = SystemEvents(node, self.now)
        for account in node.accounts.values():
            SystemServices(node, account).subscribe()
        ServerCommands(node, lambda told: told("", self.now)).subscribe()
        changes = AccountChanges(node.accounts[options.system_account], node.workload)
        ClaimsServices(node, None, Tokens(), changes).subscribe()  # type: ignore[arg-type]
        self.streams = AccountStreams(node, options, note)
        self.streams.recover(self.now)
        self.commit = self.streams.commit
        self.turn()


class Tokens:
    """No JWTs."""

    def tokens(self) -> dict[str, str]:
        return {}


def account_of(part: Any) -> str:
    """Return the account in which a part works, empty when it is in none."""
    for path in (
        ("account", "name"),
        ("_account", "name"),
        ("importer", "name"),
        ("_importer", "name"),
        ("context", "account"),
        ("_context", "account"),
        ("_contents", "_context", "account"),
        ("stream", "context", "account"),
        ("_stream", "context", "account"),
        ("_shared", "stream", "context", "account"),
        ("_catalog", "context", "account"),
    ):
        found = part
        for name in path:
            found = getattr(found, name, None)
        if isinstance(found, str):
            return found
    return ""


def once(tripped: list[str], is_meant: Callable[..., bool]) -> Callable[..., bool]:
    def is_due(self: Any, *given: Any) -> bool:
        if tripped or account_of(self) == WITNESS or not is_meant(self, *given):
            return False
        tripped.append(account_of(self))
        return True

    return is_due


@pytest.fixture(autouse=True)
def subjects_in_slices(monkeypatch):
    """Have even few subjects looked at, and given up, in slices."""
    monkeypatch.setattr(api_streams, "SUBJECTS_AT_ONCE", 0)
    monkeypatch.setattr(interest, "AT_ONCE", 2)
    monkeypatch.setattr(remains, "FREED_AT_ONCE", 2)
    monkeypatch.setattr(late_endings, "TOLD_OF_TURN_MAX", 1)


def a_day(world: Whole) -> None:
    """Do a bit of everything, whatever comes of it."""
    a, b, s = world.connect("a"), world.connect("b"), world.connect("s")
    streams(world, a)
    crossings(world, a, b)
    transfers(world, a)
    for subject in ("SERVER.PING", "USER.INFO", "CLAIMS.LIST"):
        s.publish(f"$SYS.REQ.{subject}", b"", "_INBOX.s")
    s.publish(f"$SYS.REQ.SERVER.{world.node.server_id}.KICK", b'{"cid":99}', "_INBOX.s")
    a.publish("$JS.hub.API.INFO", b"", "_INBOX.d")
    given_up(world, a)
    for _ in range(2):  # what is given up between accounts comes back with the next reload
        apart = [replace(each, imports=()) for each in world.node.options.accounts]
        arrange_accounts(world.node, replace(world.node.options, accounts=tuple(apart)))
        arrange_accounts(world.node, world.node.options)
        reload(world.node, world.node.options, world.node.authenticator, world.now)
    world.wait(20 * SECOND)


def streams(world: Whole, a: Peer) -> None:
    tried(a.stream, "S", allow_direct=True, allow_msg_schedules=True, max_age=3600 * SECOND)
    tried(a.stream, "T", sources=[{"name": "S"}])
    a.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}})
    template = {"subjects": ["made.*"], "storage": "file"}
    a.api("STREAM.TEMPLATE.CREATE.K", {"name": "K", "config": template, "max_streams": 9})
    a.publish("made.one", b"x")
    a.api("STREAM.CREATE.L", {"name": "L", "subjects": ["l.1", "l.2", "l.3"]})
    a.api("STREAM.DELETE.L")
    tried(a.consumer, "W", filter_subject="s.never")
    for _ in range(3):
        a.pull("W")
    a.api("CONSUMER.DELETE.S.W")
    a.api("STREAM.CREATE.V", {"name": "V", "subjects": ["v.*"], "storage": "memory"})
    a.say(b"PUB v.1 0\r\n\r\n" * 5)
    a.api("STREAM.DELETE.V")
    a.say(b"SUB deliver 2\r\n")
    flow = {"flow_control": True, "idle_heartbeat": SECOND, "deliver_subject": "deliver"}
    tried(a.consumer, "C", ack_wait=2 * SECOND)
    tried(a.consumer, "P", **flow)
    for _ in range(2):
        a.say(b"PUB s.many 1\r\nx\r\n" * 400)
        world.wait(SECOND)
    a.publish("s.large", Random(1).randbytes(20_000))  # more than one chunk of a snapshot
    said = a.pull(batch=3)
    for word in said.split():
        if word.startswith(b"$JS.ACK.S.C."):
            a.publish(word.decode(), b"", "_INBOX.ack")
            break
    a.publish("$JS.FC.S.P.1", b"")
    a.publish("$JS.API.DIRECT.GET.S", b'{"seq":1}', "_INBOX.g")
    a.store("w.none", b"x")
    a.publish("$JS.API.STREAM.INFO.S", b'{"subjects_filter":"s.*"}', "_INBOX.i")
    a.api("STREAM.PURGE.S", {"filter": "s.many", "keep": 3})
    world.wait(4 * SECOND)


def crossings(world: Whole, a: Peer, b: Peer) -> None:
    b.say(b"SUB from.news.> 5\r\n")
    a.say(b"SUB help 6\r\n")
    a.publish("news.x", b"x")
    said = b.publish("help", b"", "_INBOX.h") + a.read()
    for word in said.split():
        if word.startswith(b"_R_."):
            a.publish(word.decode(), b"here")
            break
    b.publish("help", b"", "_INBOX.late")
    world.wait(3 * SECOND)


def transfers(world: Whole, a: Peer) -> None:
    a.say(b"SUB here 8\r\n")
    for deliver in (b"here", b"nobody"):
        wish = b'{"deliver_subject":"%b","chunk_size":1024,"window_size":1024}' % deliver
        said = a.publish("$JS.API.STREAM.SNAPSHOT.S", wish, "_INBOX.q")
        world.wait(SECOND)
        for word in (said + a.read()).split():
            if word.startswith(b"$JS.SNAPSHOT.ACK."):
                a.publish(word.decode(), b"")
    for name in ("R1", "R2"):
        answer = a.api(f"STREAM.RESTORE.{name}", {"config": {"name": name}, "state": {}}) or {}
        if subject := answer.get("deliver_subject"):
            a.publish(subject, b"garbage", "_INBOX.c")
            if name == "R1":
                a.publish(subject, b"", "_INBOX.c")
    world.wait(7 * SECOND)


def given_up(world: Whole, a: Peer) -> None:
    """Have a consumer and a stream given up, and brought back."""
    tried(a.stream, "Z", republish={"src": "none.>", "dest": "gone.>"})
    tried(a.consumer, "H")
    a.store("z.a", b"trip")
    a.pull("H")
    world.wait(3 * SECOND)


def tried(act: Callable[..., Any], *given: Any, **fields: Any) -> None:
    """Do something that may be refused today."""
    with contextlib.suppress(AssertionError):
        act(*given, **fields)


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Return a server on which a consumer and a stream trip in any case."""
    tripped: list[str] = []
    plant(
        monkeypatch, Consumer, "advance", once(tripped, lambda self, now: self.name == "H" and True)
    )
    monkeypatch.setattr("jetstream_server.account_streams.BLOCK_BYTES", 20_000)
    once_more: list[str] = []
    is_z = once(once_more, lambda self, *given: self.name == "Z")
    plant(monkeypatch, Contents, "_note_stored", is_z)
    world = Whole(tmp_path)
    yield world
    world.streams.close()


def witness_of(world: Whole) -> Peer:
    client = world.connect("x")
    client.stream("W")
    client.consumer("C", "W")
    return client


def is_served(world: Whole, witness: Peer) -> bool:
    world.served += 1
    assert witness.store("w.a", b"x") == world.served
    assert b" $JS.ACK.W.C." in witness.pull("C", "W")
    return witness.is_well()


def named(place: str) -> type:
    """Return the class of a place."""
    import importlib

    for node, path in classes():
        if node.name == place.split(".")[0] and not any(
            getattr(base, "id", "") == "Protocol" for base in node.bases
        ):
            parts = path.with_suffix("").parts
            module = ".".join(parts[parts.index("jetstream_server") :])
            return getattr(importlib.import_module(module), node.name)
    raise AssertionError(place)


def test_a_day_without_more_than_that(world):
    witness = witness_of(world)
    a_day(world)
    assert world.counted() == {"consumer": 1, "stream": 1} and is_served(world, witness)
    assert world.health() == []


# In the table, and nothing of this day drives them: where exceptions are planted in them instead.
ELSEWHERE = {
    "Catalog.run": "the process ends, `test_the_queue_to_the_disk_ends_the_process`",
    "Flush.run": "the process ends, likewise",
    "LameDuck.run": "`test_a_lame_duck_that_trips_closes_everybody`",
    "_Http.go_on": "`test_a_question_that_trips_costs_its_connection`",
    "PasswordInquiry.answered": "`test_a_password_whose_answer_trips_costs_its_connection`",
    "UpgradingConnection.go_on": "`test_a_handshake_that_trips_costs_its_connection`",
    "LayeredConnection.go_on": "`test_what_trips_behind_a_handshake_costs_its_connection`",
    **dict.fromkeys(
        (
            "Pull.tick",
            "AtomicBatches.receive",
            "FastBatches.receive",
            "SlicedAnswer.go_on",
            "SlicedAnswer.receive",
            "TracedRoute.receive",
            "_Wide.receive",
            "_Wide.go_on",
            "_Crowded.receive",
        ),
        "`test_a_place_of_a_rare_day_that_trips_costs_what_the_table_says`",
    ),
}


def test_what_is_driven_elsewhere_is_still_there():
    assert set(driven()) >= ELSEWHERE.keys()
    sources = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", "".join(ELSEWHERE.values())))
    assert len(named) == 7 and not [each for each in named if f"def {each}(" not in sources]


@pytest.mark.parametrize(
    "place", [each for each in driven() if row_of(each) is not None and each not in ELSEWHERE]
)
def test_a_place_that_trips_costs_what_the_table_says(world, monkeypatch, place):
    owner, method = named(place), place.split(".")[1]
    witness = witness_of(world)
    tripped: list[str] = []
    plant(monkeypatch, owner, method, once(tripped, lambda *given: True))
    a_day(world)
    assert tripped, f"nothing in this day drives {place}"
    row = row_of(place)
    assert row is not None
    before = {Domain.CONSUMER: 1, Domain.STREAM: 1}
    assert world.containment.counts[row.domain] >= before.get(row.domain, 0) + (
        place not in ("HaltedConsumer.tick", "HaltedConsumer.receive", "Comeback.tick")
    )
    assert is_served(world, witness)
    world.wait(130 * SECOND)
    # All is as it was, but for what trips on the same input again, or was never made.
    assert [each for each in world.health() if "stays offline" not in each["error"]] == []


def a_rare_day(world: Whole) -> None:
    """Do what few do: batches, messages for very many, traces, answers in slices."""
    a, crowd = world.connect("a"), world.connect("a")
    tried(a.stream, "B", allow_atomic=True, allow_direct=True)
    tried(a.stream, "F", allow_batched=True)
    tried(a.consumer, "Q", "B")
    for number, commit in ((1, b""), (2, b"Nats-Batch-Commit: 1\r\n")):
        batch = b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: %d\r\n" % number
        a.publish("b.a", b"x", "_INBOX.b", batch + commit + b"\r\n")
    for number, operation in ((1, 0), (2, 2)):
        a.publish("f.a", b"x", f"_INBOX.f.q.1.ok.{number}.{operation}.$FI")
    for number in range(40):
        a.store(f"b.{number}", b"x")
    wish = b'{"batch":9,"expires":3000000000,"idle_heartbeat":1000000000}'
    a.publish("$JS.API.CONSUMER.MSG.NEXT.B.Q", b'{"batch":100,"no_wait":true}', "_INBOX.p")
    a.publish("$JS.API.CONSUMER.MSG.NEXT.B.Q", wish, "_INBOX.p")
    world.wait(2 * SECOND)
    for get in (b'{"multi_last":["b.*"],"batch":30}', b'{"batch":30,"seq":1}'):
        line = b"PUB $JS.API.DIRECT.GET.B _INBOX.g %d\r\n%b\r\n" % (len(get), get)
        a.say(line * 60)  # more than a turn takes on
    for first in range(0, 6000, 500):
        crowd.say(b"".join(b"SUB wide %d\r\n" % (10 + at) for at in range(first, first + 500)))
    for headers in (b"", b"NATS/1.0\r\nNats-Trace-Dest: traced\r\n\r\n"):
        for _ in range(3):
            a.publish("wide", b"x", "_INBOX.w", headers)
            crowd.read()
    world.wait(5 * SECOND)


RARE = sorted(place for place, where in ELSEWHERE.items() if "of_a_rare_day" in where)


@pytest.mark.parametrize("place", RARE)
def test_a_place_of_a_rare_day_that_trips_costs_what_the_table_says(world, monkeypatch, place):
    monkeypatch.setattr("jetstream_server.jetstream.streams.reads.direct_search._SLICE_BYTES", 100)
    if place.startswith("_Crowded"):
        for module in ("match", "sublist"):
            name = f"jetstream_server.core.{module}.COLLECTED_AT_ONCE_MAX"
            monkeypatch.setattr(name, 3000, raising=False)
    witness = witness_of(world)
    tripped: list[str] = []
    plant(monkeypatch, named(place), place.split(".")[1], once(tripped, lambda *given: True))
    a_rare_day(world)
    assert tripped, f"nothing in this day drives {place}"
    row = row_of(place)
    assert row is not None and world.containment.total == 1
    # What somebody publishes is delivered in the publisher's own turn, and then costs that.
    counts = world.containment.counts
    assert counts[row.domain] + counts[Domain.CONNECTION] == 1
    assert is_served(world, witness)
    world.wait(130 * SECOND)
    assert world.health() == []


def test_a_lame_duck_that_trips_closes_everybody(world, monkeypatch):
    from jetstream_server.node.lame_duck import LameDuck

    witness = witness_of(world)
    plant(monkeypatch, LameDuck, "run")
    world.node.enter_lame_duck(world.now)
    world.wait(SECOND)
    assert witness.session.closing == "Server Shutdown"


def filled(route: Route) -> str:
    """Return a subject of a route."""
    words = ["S" if word in ("*", ">") else word for word in route.pattern]
    return ".".join(words)


@pytest.mark.parametrize("route", ROUTES, ids=filled)
def test_a_handler_that_trips_costs_the_request(world, monkeypatch, route):
    witness = witness_of(world)
    client = world.connect("a")

    def handler(catalog: object, request: object) -> None:
        raise PlantedError

    monkeypatch.setattr(route, "handler", handler)
    answer = client.api(filled(route))
    assert answer["error"]["code"] == 500 and answer["error"]["err_code"] == 10051
    assert world.counted() == {"request": 1} and client.is_well()
    assert is_served(world, witness) and world.health() == []


@pytest.mark.parametrize("op", sessions._ACTIONS)
def test_an_op_that_trips_costs_the_connection(world, monkeypatch, op):
    witness = witness_of(world)
    client = world.connect("a")
    frames = {
        "Connect": b'CONNECT {"user":"a","pass":"x"}\r\n',
        "PubRun": b"PUB a 1\r\nx\r\n",
        "Sub": b"SUB a 7\r\n",
        "Unsub": b"UNSUB 1\r\n",
        "Ping": b"PING\r\n",
        "Pong": b"PONG\r\n",
        "Violation": b"NONSENSE\r\n",
    }
    action = planted(
        "an action", sessions._ACTIONS[op], lambda self, op: self.account.name != WITNESS
    )
    monkeypatch.setitem(sessions._ACTIONS, op, action)
    assert b"-ERR 'Internal Server Error'\r\n" in client.say(frames[op.__name__])
    assert client.session.closing and world.counted() == {"connection": 1}
    assert is_served(world, witness)


def test_the_table_in_the_architecture_is_this_one():
    """What is said of domains outside the code is said of all of them."""
    from pathlib import Path

    text = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()
    assert all(f"`{domain.word}`" in text for domain in Domain), json.dumps(
        [domain.word for domain in Domain]
    )
