"""Sequences of valid and nearly valid inputs over every receiver: nothing trips, nobody waits.

The seeds are the same each time; those that ever found something come first. `make attack` is the
long run.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.user_claims import UserGrants

from tests.attack import __main__ as attacks
from tests.attack import process
from tests.attack.__main__ import Attack, comparable, is_on_purpose, is_same_question
from tests.attack.acts import (
    Crash,
    Ears,
    FoundError,
    Heard,
    Join,
    Look,
    Pass,
    Publish,
    Reload,
    Say,
    Show,
    Web,
    frame,
)
from tests.attack.claims import account_claims, account_token, user_token, written
from tests.attack.draws import RAW
from tests.attack.grammar import OPERATED, sequence
from tests.attack.operated_users import OperatedUsers, of_seed
from tests.attack.process import ANSWER_SECONDS, attack_by_sockets, running
from tests.attack.world import attack, opened
from tests.parity.credentials import OPERATOR, account_key
from tests.parity.server_process import MEMORY

SEEDS = 1300  # two minutes with the others
SEEDS_OF_EVERY_KIND = 100  # in which every kind of input comes up
# The first ones found something once: a mapping that cannot be kept all accounts from changing, and
# the server from starting (23, 548); what is nested deeply could not be quoted where a JWT says its
# type or version (107), nor written again in one of version 1 (590, 980); what was revoked under a
# name that claims have could not be refused (15300124).
SEEDS_OPERATED = (23, 548, 107, 590, 980, 15300124, *range(4, 4 + 5 * 44, 5))
SEEDS_BY_SOCKETS = range(12)
# Other tests run beside these: a processor is not always there within the tenth of a second that
# is asked for otherwise.
PONG_SECONDS_MAX = 0.6
_ACKS = (b"-NAK", b"+TERM x")


@pytest.fixture
def folder(tmp_path):
    """Return where servers are: in memory where there is room, as each of them syncs."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        yield Path(made)


def test_tokens_of_acks_that_were_found_once(folder):
    """Of a count in the subject of a negative ack JSON had no room for it."""
    config = {"durable_name": "C0", "ack_policy": "explicit", "max_deliver": 1}
    consumer = json.dumps({"stream_name": "S0", "config": config}).encode()
    acts = [
        Publish(0, b"$JS.API.STREAM.CREATE.S0", b"_INBOX.r1", b"", b'{"name":"S0"}'),
        Publish(0, b"$JS.API.CONSUMER.CREATE.S0.C0", b"_INBOX.r2", b"", consumer),
        Publish(0, b"S0", b"_INBOX.r3", b"", b"x"),
        Publish(0, b"$JS.API.CONSUMER.MSG.NEXT.S0.C0", b"_INBOX.pull", b"", b"1"),
        Say(0, b"SUB $JS.EVENT.> 9\r\n"),
    ]
    for at, piece in itertools.product(range(4, 9), RAW):
        token = piece.replace(b" ", b"").replace(b"\r", b"")
        acts += [Publish(0, Heard("ack", 0, ((at, token),)), b"", b"", ack) for ack in _ACKS]
    with opened(folder / "acks", spies=False) as world:
        for act in acts:
            world.do(act)
        world.check()
        assert world.ears.kept["ack"], "there was something to acknowledge"


@pytest.mark.parametrize("first", range(0, SEEDS, 25))
def test_a_server_stands_it(first, folder):
    for seed in range(first, first + 25):
        attack(folder, seed, sequence(seed))


@pytest.mark.parametrize("first", range(0, len(SEEDS_OPERATED), 25))
def test_a_server_of_an_operator_stands_it(first, folder):
    for seed in SEEDS_OPERATED[first : first + 25]:
        attack(folder, seed, sequence(seed, OPERATED), of_seed(seed))


def test_a_process_stands_it(monkeypatch):
    monkeypatch.setattr(process, "PONG_SECONDS_MAX", PONG_SECONDS_MAX)
    with running() as server:
        for seed in SEEDS_BY_SOCKETS:
            attack_by_sockets(server, sequence(seed))
        monkeypatch.setattr(process, "RESIDENT_BYTES_MAX", 1 << 20)
        with pytest.raises(FoundError, match=r"holds \d+ MiB"):
            server.check()


def test_every_kind_of_input_and_every_feature_comes_up():
    kinds = {type(act) for seed in range(SEEDS_OF_EVERY_KIND) for act in sequence(seed)}
    assert kinds == {Publish, Say, Join, Web, Pass, Look, Reload, Crash}
    heard = {
        act.subject.kind
        for seed in range(SEEDS_OF_EVERY_KIND)
        for act in sequence(seed)
        if isinstance(act, Publish) and isinstance(act.subject, Heard)
    }
    assert heard == {"ack", "feed", "inbox", "flow", "snapshot", "restore", "service", "system"}
    assert min(OPERATED.values()) > 0
    assert Show in {type(act) for seed in range(5) for act in sequence(seed, OPERATED)}


def test_the_same_seed_is_the_same_sequence():
    assert sequence(7) == sequence(7) and sequence(7) != sequence(8)
    assert sequence(7, OPERATED) == sequence(7, OPERATED) != sequence(7)


@pytest.mark.parametrize(
    ("seed", "is_operated"), [(4, True), (104, True), (5, False), (3, False), (99, True)]
)
def test_the_seed_says_whether_there_is_an_operator(monkeypatch, seed, is_operated):
    played = []
    monkeypatch.setattr(attacks, "attack", lambda *given: played.append(given) or 0.0)
    monkeypatch.setattr(attacks, "attack_by_sockets", lambda *given: 0.0)
    monkeypatch.setattr(Attack, "_process", lambda attack: None)
    with ExitStack() as stack:
        Attack(Path(), stack).run(seed)
    assert [isinstance(given[3](), OperatedUsers) for given in played] in ([is_operated], [])


def test_enough_is_understood(folder):
    """Most of what is said is no nonsense: messages are stored, delivered and acknowledged."""
    heard: set[str] = set()
    successes = 0
    for seed in (*range(0, 40, 2), 61):
        with opened(folder / str(seed), spies=True) as world:
            for act in sequence(seed):
                world.do(act)
            heard |= set(world.ears.kept)
            successes += list(world.ears.errors.values()).count(0)
    assert {"ack", "feed", "restore", "chunk", "system"} <= heard
    assert successes > 200


def test_jwts_are_understood(folder):
    """Most users whose JWT is whole are let in, and most accounts whose JWT is whole are taken:
    others are of accounts that are gone, come too late, or not as they may."""
    shown, came_in, taken, successes = 0, 0, 0, 0
    for seed in SEEDS_OPERATED[:30]:
        users = OperatedUsers(keeps=True)
        with opened(folder / str(seed), spies=False, admission=users) as world:
            for act in sequence(seed, OPERATED):
                world.do(act)
                if isinstance(act, Show) and act.is_sound:
                    session = world.peers[act.who]
                    shown += 1
                    came_in += session.is_connected and not session.closing
            taken += users.taken
            successes += list(world.ears.errors.values()).count(0)
    assert shown > 100 and came_in > shown / 2
    assert taken > 100 and successes > 500


def _update(claims):
    token = written(claims, OPERATOR).encode()
    return Publish(3, b"$SYS.REQ.CLAIMS.UPDATE", b"_INBOX.r1", b"", token)


@pytest.mark.parametrize(
    ("planted_in", "method", "is_hit"),
    [
        (AccountClaims, "look", lambda claims: claims.nats.trace is not None),
        (UserGrants, "problem", lambda claims: claims.locale == "Europe/Berlin"),
    ],
)
def test_what_trips_over_claims_is_found(folder, monkeypatch, planted_in, method, is_hit):
    """One value that trips who looks at claims does not go unnoticed in the attack."""
    looking = getattr(planted_in, method)

    def trip(claims: object) -> object:
        if is_hit(claims):
            raise RuntimeError("planted")
        return looking(claims)

    monkeypatch.setattr(planted_in, method, trip)
    found = 0
    for seed in range(20):
        try:
            attack(folder, seed, sequence(seed, OPERATED), of_seed(seed))
        except FoundError as error:
            assert "planted" in str(error)
            found += 1
    assert found


def test_witnesses_of_an_operator_are_looked_at(folder):
    """What was changed for one, and that no account can come any more, is found."""
    with opened(folder / "a", spies=False, admission=OperatedUsers(keeps=True)) as world:
        world.do(Show(0, user_token("x"), "x"))
        world.do(Publish(0, b"W.1", b"", b"", b"x"))
        with pytest.raises(FoundError, match="has changed"):
            world.check()
    with opened(folder / "d", spies=False, admission=OperatedUsers(keeps=True)) as world:
        world.do(_update(account_claims("C")))
        (folder / "d" / "jwt" / f"{account_key('C').public}.jwt").unlink()
        with pytest.raises(FoundError, match="are not kept"):
            world.check()
    users = OperatedUsers(keeps=True)
    with opened(folder / "b", spies=False, admission=users) as world:
        (folder / "b" / "jwt" / f"{account_key('Z').public}.jwt.tmp").mkdir()
        with pytest.raises(FoundError, match="no account can come any more"):
            world.check()
    with opened(folder / "c", spies=False, admission=OperatedUsers(keeps=True)) as world:
        world.admission.newcomers = ("b",)
        claims = account_claims("B")
        claims["nats"]["limits"]["conn"] = 0
        world.do(_update(claims))
        with pytest.raises(FoundError, match="b is not let in any more"):
            world.check()


def test_accounts_are_as_they_were_kept_after_a_crash(folder):
    users = OperatedUsers(keeps=True)
    with opened(folder / "a", spies=False, admission=users) as world:
        claims = account_claims("C")
        claims["nats"]["limits"]["payload"] = 7
        for act in (_update(claims), Crash()):
            world.do(act)
        assert world.node.accounts[account_key("C").public].limits.payload_bytes_max == 7
        world.do(Show(0, account_token("A"), "a"))
        assert not world.peers[0].is_connected
        world.check()


def test_what_trips_is_found(folder, monkeypatch):
    """Planted errors, stalls and changes of what witnesses hold do not go unnoticed."""
    from jetstream_server.jetstream.consumers.consumer import Consumer

    def trip(*given: object) -> None:
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(Consumer, "info", trip)
        with opened(folder / "a", spies=False) as world, pytest.raises(FoundError):
            world.do(Publish(0, b"$JS.API.CONSUMER.INFO.WITNESS.C", b"_INBOX.r1"))
    with opened(folder / "b", spies=False) as world:
        world.do(Publish(0, b"WITNESS.1", b"", b"", b"x"))
        with pytest.raises(FoundError, match="has changed"):
            world.check()
    with monkeypatch.context() as patch:
        patch.setattr("tests.attack.world.PIECE_SECONDS_MAX", 0.0)
        with pytest.raises(FoundError, match="without a pause"):
            attack(folder, 1, [Look("/varz")])


def test_who_waits_and_what_has_changed_is_found_by_sockets(monkeypatch):
    """A server that keeps others waiting each time, and a witness's stream that somebody uses."""
    monkeypatch.setattr(process, "PONG_SECONDS_MAX", PONG_SECONDS_MAX)
    with running() as server:
        acts = [Look("/varz"), Publish(0, b"s0.a", b"_INBOX.r1", b"", b"x"), Crash()]
        assert attack_by_sockets(server, acts) <= PONG_SECONDS_MAX
        played = []
        with monkeypatch.context() as patch:
            patch.setattr(process, "PONG_SECONDS_MAX", 0.0)
            patch.setattr(server, "do", lambda act, do=server.do: played.append(act) or do(act))
            with pytest.raises(FoundError, match=r"waits \d+\.\d+ s for a PONG"):
                attack_by_sockets(server, acts[:1])
        assert played == acts[:1] * process.TRIES
        line = server._line(0, b'{"verbose":false,"user":"x","pass":"x"}')
        line.say(b"PUB W.1 1\r\nx\r\nPING\r\n")
        assert line.until(b"PONG\r\n", ANSWER_SECONDS)
        line.close()
        with pytest.raises(FoundError, match="what a witness holds has changed"):
            attack_by_sockets(server, acts[:1])


def test_a_server_that_is_late_is_found(monkeypatch):
    """It stops for a while whenever somebody looks at it; once is no finding, each time is."""
    monkeypatch.setattr(process, "PONG_SECONDS_MAX", PONG_SECONDS_MAX)
    with running() as server:
        pid = server.server.process.pid
        stops, going_on = [], []

        def view(path, parameters=(), view=server._view):
            if path == "/connz" and stops and stops.pop():
                os.kill(pid, signal.SIGSTOP)
                delay = 1.5 * PONG_SECONDS_MAX
                going_on.append(threading.Timer(delay, os.kill, (pid, signal.SIGCONT)))
                return b""
            return view(path, parameters)

        def say(data, mark, say=server._bystander.say):
            # Whoever waits has begun to, however long this machine took.
            while going_on:
                going_on.pop().start()
            return say(data, mark)

        monkeypatch.setattr(server, "_view", view)
        monkeypatch.setattr(server._bystander, "say", say)
        stops[:] = [False, True]
        assert attack_by_sockets(server, [Look("/connz")]) <= PONG_SECONDS_MAX
        assert stops == []
        stops[:] = [True] * process.TRIES
        with pytest.raises(FoundError, match=r"waits \d+\.\d+ s for a PONG, on Look"):
            attack_by_sockets(server, [Look("/connz")])


def test_what_was_heard_is_said_again_with_tokens_broken():
    ears = Ears()
    ears.hear(b"MSG s0.a 1 $JS.ACK.S0.C0.1.2.3.4.5 1\r\nx\r\nMSG _INBOX.r1 1 2\r\n{}\r\n")
    ack = Heard("ack", 0, ((4, b"\xff"), (5, None)))
    assert (
        frame(Publish(0, ack, b"r", b"", b"+ACK"), ears)
        == b"PUB $JS.ACK.S0.C0.\xff.2 r 4\r\n+ACK\r\n"
    )
    assert ears.errors == {b"_INBOX.r1": 0}
    whole = b'MSG _INBOX.r2 1 28\r\n{"error":{"err_code":10059}}\r\n'
    assert ears.hear(whole[:-5]) == 0 and ears.hear(whole) == len(whole)
    assert ears.errors[b"_INBOX.r2"] == 10059


def test_an_error_that_an_answer_tells_of_is_none_of_it():
    """What a source last heard of its origin depends on when it was asked."""
    ears, answers = Ears(), (b'{"sources":[{"error":{"err_code":10082}}]}', b'{"err_code":', b"[]")
    for number, answer in enumerate(answers):
        ears.hear(b"MSG _INBOX.r%d 1 %d\r\n%b\r\n" % (number, len(answer), answer))
    assert set(ears.errors.values()) == {0} and len(ears.errors) == len(answers)


@pytest.mark.parametrize(
    ("ours", "theirs", "is_same"),
    [
        (b"S0.C0.1.2.3.1700000000000000001.4", b"S0.C0.1.2.3.1700000000000000002.5", True),
        (b"S0.C0.1.2.3.1700000000000000001.4", b"S0.C0.1.2.4.1700000000000000001.4", False),
        (b"S0.C0.1.2.3.1700000000000000001.4", b"S1.C0.1.2.3.1700000000000000001.4", False),
        (b"S0.C0.1.2.3.1700000000000000001.4", b"", False),
    ],
)
def test_what_depends_on_what_was_heard_first_is_not_compared(ours, theirs, is_same):
    both = []
    for ack in (ours, theirs):
        ears = Ears()
        if ack:
            ears.hear(b"MSG s0.a 1 $JS.ACK.%b 1\r\nx\r\n" % ack)
        frame(Publish(0, Heard("ack"), b"_INBOX.r1", b"", b"+NXT 5"), ears)
        both.append(ears)
    assert is_same_question(b"_INBOX.r1", *both) is is_same
    assert is_same_question(b"_INBOX.r2", *both)


def test_what_differs_on_purpose_is_no_finding():
    heard = {
        b"cycle": b'{"error":{"code":500,"err_code":10052,"description":"detected cycle"}}',
        b"503": b"NATS/1.0 503\r\nNats-Subject: x\r\n\r\n",
        b"level": b'{"error":{"code":412,"err_code":10185,"description":"x"}}',
        b"made": b'{"config":{}}',
        b"purge": b'{"error":{"code":500,"err_code":10110,"description":"x"}}',
        b"": b"",
    }

    def ears(kind: bytes) -> Ears:
        found, payload = Ears(), heard[kind]
        if payload:
            found.hear(b"MSG _INBOX.r1 1 %d\r\n%b\r\n" % (len(payload), payload))
        return found

    def is_known(subject: bytes, ours: bytes, theirs: bytes) -> bool:
        return is_on_purpose(Publish(0, subject, b"_INBOX.r1"), ears(ours), ears(theirs))

    create = b"$JS.API.STREAM.CREATE.S0"
    assert is_known(create, b"made", b"cycle") and not is_known(create, b"cycle", b"made")
    assert is_known(b"$JS.API.9.MSG", b"503", b"") and not is_known(b"$JS.API.9.MSG", b"", b"503")
    assert not is_known(b"s0.a", b"503", b"") and not is_known(create, b"503", b"made")
    assert is_known(b"$JS.API.STREAM.TEMPLATE.INFO.K", b"made", b"")
    for level, refusal, is_excused in ((5, b"level", True), (6, b"level", False), (5, b"", False)):
        block = b"NATS/1.0\r\nNats-Required-Api-Level: %d\r\n\r\n" % level
        asked = Publish(0, b"$JS.API.INFO", b"_INBOX.r1", block)
        assert is_on_purpose(asked, ears(refusal), ears(b"made")) is is_excused
    for until, is_excused in ((2**63, True), (2**63 - 1, False)):
        body = b'{"filter": "a", "seq": %d}' % until
        purge = Publish(0, b"$JS.API.STREAM.PURGE.S0", b"_INBOX.r1", b"", body)
        assert is_on_purpose(purge, ears(b"purge"), ears(b"made")) is is_excused
    for block, is_excused in ((b"NA", True), (b"", False), (b"NAT", False)):
        short = Publish(0, create, b"_INBOX.r1", block)
        assert is_on_purpose(short, ears(b"made"), ears(b"level")) is is_excused
    wrong_id = b'{"error":{"code":400,"err_code":10070,"description":"x"},"stream":"S","seq":0}'
    first = b'{"type":"err","seq":1,"error":{"code":400,"err_code":10060,"description":"x"}}'
    second = first.replace(b'"seq":1', b'"seq":2')
    for told, batch, is_excused in (
        (wrong_id, b"w.2.ok.3.3.$FI", True),
        (wrong_id, b"v.2.ok.3.3.$FI", False),
        (wrong_id, b"w.2.ok.3.3.$FX", False),
        (first, b"w.2.ok.1.0.$FI", True),
        (second, b"w.2.ok.1.0.$FI", False),
    ):
        stalled = Ears()
        stalled.hear(b"MSG _INBOX.r.w.2.ok.2.1.$FI 1 %d\r\n%b\r\n" % (len(told), told))
        act = Publish(0, b"s0.a", b"_INBOX.r." + batch)
        assert is_on_purpose(act, Ears(), stalled) is is_excused

    # It counts as open there, and others begin with an ack for each message (seed 900800).
    ack, error = b'{"type":"ack","seq":2,"msgs":2}', b'{"error":{"err_code":10208}}'
    subject = b"_INBOX.r.q.2.ok.2.1.$FI"
    act = Publish(0, b"s0.a", subject)
    for said, beside, is_excused in ((ack, True, True), (ack, False, False), (error, True, False)):
        ours, theirs = Ears(), Ears()
        ours.hear(b"MSG %b 1 %d\r\n%b\r\n" % (subject, len(said), said))
        if beside:
            theirs.hear(b"MSG _INBOX.r.w.2.ok.2.1.$FI 1 %d\r\n%b\r\n" % (len(wrong_id), wrong_id))
        assert is_on_purpose(act, ours, theirs) is is_excused
        assert is_on_purpose(act, theirs, ours) is False


def test_both_servers_are_told_what_both_take():
    told = [Publish(0, b"s", reply) for reply in (b"_INBOX.r1", b"$JSC.R.x", b"$JS.M.x", b"")]
    assert comparable([*told, Look("/varz")]) == [told[0], told[3], Look("/varz")]


class StandIn:
    """A server that answers each request with one number."""

    slowest = (0.0, "")

    def __init__(self, number):
        self.ears = Ears()
        self._number = number

    def do(self, act):
        if isinstance(act, Publish) and isinstance(act.reply, bytes):
            self.ears.errors[act.reply] = self._number

    def rest(self):
        """Have nothing more to say."""

    def check(self):
        """Find nothing."""


@pytest.mark.parametrize(
    ("answered", "is_told"), [([0, 0, 0], True), ([0, 10059], False), ([10059], None)]
)
def test_a_difference_counts_if_it_shows_each_time_between_new_servers(
    monkeypatch, answered, is_told
):
    """What other sequences left in a server would be in one, and not in the other."""
    started = []

    @contextlib.contextmanager
    def running(command=None, patience_seconds=0.0):
        started.append((command is None, patience_seconds))
        yield StandIn(answered[len(started) // 2] if command is None else 10059)

    monkeypatch.setattr(attacks, "running", running)
    monkeypatch.setattr(attacks, "is_on_purpose", lambda *given: False)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    with ExitStack() as stack:
        attack = Attack(Path(), stack)
        attack.run(0)
        assert started == [
            (is_ours, seconds)
            for seconds in attacks.PATIENCES_SECONDS[: len(answered)]
            for is_ours in (True, False)
        ]
        assert attack.differences.total() == (is_told is True)
        assert attack.passing == ([0] if is_told is False else [])


def check_that_reloads_are_awaited(command):
    with running(command) as server:
        for number, most in 5 * ((1, 2048), (0, 4096)):
            server.do(Reload(number))
            # As a client sees it: `/varz` of the genuine server is told a moment later.
            line = server._line(0)
            line.buffer = b""
            line.say(b"PUB %b 0\r\n\r\nPING\r\n" % (3000 * b"x"))
            assert line.until(b"PONG\r\n", ANSWER_SECONDS) == (most > 3000), line.buffer
            line.close()


def test_what_comes_after_a_reload_meets_what_was_loaded():
    check_that_reloads_are_awaited(None)


def test_what_comes_after_a_reload_of_the_genuine_server_meets_what_was_loaded(genuine_binary):
    check_that_reloads_are_awaited([genuine_binary])
