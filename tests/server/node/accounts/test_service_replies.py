"""Stand-ins for reply subjects of other accounts."""

from __future__ import annotations

import json
from random import Random

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.core.containment import UNCONTAINED
from jetstream_server.core.deliveries import TURN_NS, Deliveries
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.node.accounts import service_replies
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.service_replies import ResponseTerms
from jetstream_server.node.service_latency import TimedRequest
from jetstream_server.protocol.ops import PubRun

SINGLE = ResponseTerms("singleton", SECOND)
MANY = ResponseTerms("stream", SECOND)


class Inbox:
    def __init__(self, account, subject):
        self.got = []
        account.sublist.insert(Subscription(subject, self))

    def receive(self, stretch: Stretch) -> None:
        run = stretch.run
        for at in stretch.indices:
            self.got.append((run.subject(at), run.reply(at), run.headers(at), run.payload(at)))


@pytest.fixture
def accounts():
    return Account("A", Random(1)), Account("B", Random(2))


def answer(account, subject, payload, now, reply=b"", headers=b""):
    account.router.route(PubRun.single(subject, reply, headers, payload), None, now)


def test_answers_reach_the_requester(accounts):
    a, b = accounts
    inbox = Inbox(b, b"in")
    first, second = a.replies.expect(b, b"in", SINGLE, 0), a.replies.expect(b, b"in", SINGLE, 0)
    assert first != second and first.startswith(b"_R_.") and len(a.replies) == 2
    answer(a, second, b"2", 1, headers=b"NATS/1.0\r\nA: b\r\n\r\n")
    answer(a, first, b"1", 1)
    answer(a, first, b"again", 1)
    assert inbox.got == [
        (b"in", b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"2"),
        (b"in", b"", b"", b"1"),
    ]
    assert len(a.replies) == 0


def test_a_fast_batch_says_the_same_in_the_other_account(accounts):
    """It became single messages there (attack seed 32000)."""
    a, b = accounts
    reply = b"_INBOX.x.batch.5.ok.1.0.$FI"
    inbox = Inbox(b, reply)
    stand_in = a.replies.expect(b, reply, MANY, 0)
    assert stand_in.startswith(b"_R_.") and stand_in.endswith(b".batch.5.ok.1.0.$FI")
    for payload in (b"1", b"2"):
        answer(a, stand_in, payload, 1)
    assert [payload for *_, payload in inbox.got] == [b"1", b"2"]


def test_the_server_s_own_requests_are_not_answered_by_clients(accounts):
    a, b = accounts
    inbox = Inbox(b, b"$JSC.R.x")
    reply = a.replies.expect(b, b"$JSC.R.x", SINGLE, 0)
    a.router.route(PubRun.single(reply, b"", b"", b"forged"), Responder(), 1)
    answer(a, reply, b"genuine", 1)
    assert [payload for *_, payload in inbox.got] == [b"genuine"]


def test_many_answers_until_an_empty_one(accounts):
    a, b = accounts
    inbox = Inbox(b, b"in")
    reply = a.replies.expect(b, b"in", MANY, 0)
    for payload in (b"1", b"2", b"", b"3"):
        answer(a, reply, payload, 1)
    assert [payload for *_, payload in inbox.got] == [b"1", b"2", b""]


def test_each_answer_has_its_time(accounts):
    a, b = accounts
    inbox = Inbox(b, b"in")
    reply = a.replies.expect(b, b"in", MANY, 0)
    answer(a, reply, b"1", SECOND)
    answer(a, reply, b"2", 2 * SECOND)
    answer(a, reply, b"late", 3 * SECOND + 1)
    answer(a, reply, b"gone", 3 * SECOND + 1)
    assert [payload for *_, payload in inbox.got] == [b"1", b"2"]
    assert len(a.replies) == 0


def test_an_answer_may_ask_back(accounts):
    a, b = accounts
    inbox, back = Inbox(b, b"in"), Inbox(a, b"back")
    answer(a, a.replies.expect(b, b"in", SINGLE, 0), b"?", 1, reply=b"back")
    ((_, reply, _, _),) = inbox.got
    assert reply.startswith(b"_R_.")
    answer(b, reply, b"!", 2)
    assert back.got == [(b"back", b"", b"", b"!")]
    answer(a, a.replies.expect(b, b"in", SINGLE, 2), b"m", 2, reply=b"$JS.ACK.S.c.1")
    assert inbox.got[-1][1] == b"$JS.ACK.S.c.1"


def test_who_waits_too_long_is_forgotten(accounts):
    a, b = accounts
    unseen = a.replies.expect(b, b"in", SINGLE, 0)
    for step in range(5):
        a.replies.expect(b, b"in", SINGLE, 2 * SECOND + step)
    assert a.replies.behind(unseen) is None and len(a.replies) == 5


def test_what_a_consumer_looks_at_stays(accounts):
    a, b = accounts
    Inbox(b, b"in")
    reply = a.replies.expect(b, b"in", MANY, 0)
    match = a.replies.behind(reply)
    assert match is not None and not match.empty
    a.replies.expect(b, b"in", MANY, 2 * SECOND)
    assert a.replies.behind(reply) is not None
    a.replies.unserved(reply, 0)
    assert a.replies.behind(reply) is None


def timed(a, b, now=0):
    """A request of B that is timed, and what A is told."""
    request = TimedRequest(b"told", {"acc": "B", "rtt": 5}, now, None)
    return a.replies.expect(b, b"in", SINGLE, now, request)


def metrics(a):
    sends, a.output.sends = a.output.sends, []
    assert all(send.run.subject(0) == b"told" for send in sends)
    return [json.loads(send.run.payload(0)) for send in sends]


class Responder:
    echo = True
    is_server = False
    answers = None

    def unanswered(self, run, start, stop):
        raise AssertionError("somebody listens")

    def client_info(self, now):
        return {"acc": "A", "rtt": 7}


def test_an_answer_is_timed(accounts):
    a, b = accounts
    Inbox(b, b"in")
    reply = timed(a, b)
    assert a.replies.timed.next_deadline() == SECOND
    a.router.route(PubRun.single(reply, b"", b"", b"1"), Responder(), 100)
    (metric,) = metrics(a)
    assert (metric["status"], metric["service"], metric["total"]) == (200, 93, 105)
    assert metric["responder"] == {"acc": "A", "rtt": 7}
    assert a.replies.timed.next_deadline() is None
    a.replies.run(2 * SECOND)
    assert metrics(a) == []


def test_why_there_was_no_answer_is_told(accounts):
    a, b = accounts
    inbox = Inbox(b, b"in")
    a.replies.unserved(timed(a, b), 1)
    late = timed(a, b)
    a.replies.run(SECOND)
    answer(a, late, b"1", SECOND + 1)
    assert [metric["status"] for metric in metrics(a)] == [503, 504]
    assert inbox.got == []


def test_an_answer_to_nobody_is_told(accounts):
    a, b = accounts
    answer(a, timed(a, b), b"1", 5)
    assert [metric["description"] for metric in metrics(a)] == ["Request Timeout"]


def test_what_is_due_together_is_told_in_turns_and_in_order(accounts, monkeypatch):
    """200,000 were told of in one turn: 1.4 s."""
    monkeypatch.setattr(service_replies, "TIMEOUTS_OF_TURN_MAX", 4)
    a, b = accounts
    for number in range(10):
        timed(a, b, 10 * number + 6)
    told = []
    while a.next_deadline() is not None:
        a.run(2 * SECOND)
        told.append([metric["start"] for metric in metrics(a)])
    assert [len(each) for each in told] == [4, 4, 2] and len(a.replies) == 0
    starts = [start for each in told for start in each]
    assert starts == sorted(starts) and len(set(starts)) == 10


def test_what_is_due_together_is_told_as_far_as_the_turn_has_time_by_the_clock(monkeypatch):
    """Three hundred took 6 ms, and twice that at times, behind as much that clients had said."""
    monkeypatch.setattr(service_replies, "TIMEOUTS_OF_TURN_MAX", 10)
    monkeypatch.setattr(service_replies, "TIMEOUTS_OF_PIECE", 4)
    ns = 0
    deliveries = Deliveries((), lambda: ns)
    a, b = (Account(name, Random(1), {}, UNCONTAINED, deliveries) for name in "AB")
    for _ in range(30):
        timed(a, b)
    a.replies.run(2 * SECOND)
    assert len(metrics(a)) == 10
    ns = TURN_NS
    a.replies.run(2 * SECOND)
    assert len(metrics(a)) == 4, "a little always, or it would never be told"
    deliveries.begin()
    a.replies.run(2 * SECOND)
    assert len(metrics(a)) == 10


def test_what_is_due_and_waits_is_told_even_if_more_is_asked_or_answered(accounts):
    a, b = accounts
    inbox = Inbox(b, b"in")
    forgotten, answered = timed(a, b), timed(a, b)
    answer(a, answered, b"late", 2 * SECOND)
    timed(a, b, 2 * SECOND)
    assert [metric["status"] for metric in metrics(a)] == [504, 504] and inbox.got == []
    answer(a, forgotten, b"late", 2 * SECOND)
    a.replies.run(2 * SECOND)
    assert metrics(a) == [] and len(a.replies) == 1


def test_what_is_told_late_is_taken_off_the_time_for_more_requests(accounts, monkeypatch):
    """Five hundred requests found two that were late each, which are told in the time of forty
    deliveries: 0.15 s in a turn."""
    a, b = accounts
    for _ in range(6):
        timed(a, b)
    spent = []
    monkeypatch.setattr(a.router, "spend", spent.append)
    a.replies.expect(b, b"in", SINGLE, 2 * SECOND)
    assert spent == [40, 40] and len(metrics(a)) == 2
    a.replies.expect(b, b"in", SINGLE, 2 * SECOND)
    assert len(spent) == 4


def test_what_was_told_as_late_is_not_told_again_because_a_consumer_looks_at_it(accounts):
    a, b = accounts
    inbox = Inbox(b, b"in")
    late = timed(a, b)
    a.replies.behind(late)
    timed(a, b, 2 * SECOND)
    answer(a, late, b"1", 2 * SECOND)
    assert [metric["status"] for metric in metrics(a)] == [504]
    assert [payload for *_, payload in inbox.got] == [b"1"]


def test_what_was_answered_in_time_is_not_told_as_late(accounts):
    a, b = accounts
    request = TimedRequest(b"told", {"acc": "B", "rtt": 5}, 0, None)
    reply = a.replies.expect(b, b"in", MANY, 0, request)
    Inbox(b, b"in")
    answer(a, reply, b"1", 1)
    answer(a, reply, b"2", 3 * SECOND)
    assert [metric["status"] for metric in metrics(a)] == [200]


def test_of_too_many_the_oldest_are_forgotten_without_a_look_at_those_before(accounts, monkeypatch):
    """A dictionary looks for its first key behind all that were there: with a quarter of a million
    that nobody answers, each request took a fifth of a millisecond for that."""
    monkeypatch.setattr(service_replies, "_OPEN_MAX", 300)
    a, b = accounts
    Inbox(b, b"in")
    asked = [a.replies.expect(b, b"in", MANY, 0) for _ in range(300)]
    assert a.replies.behind(asked[2]) is not None  # it is looked at, so it stays for longer
    answer(a, asked[1], b"", 0)
    for _ in range(5):
        asked.append(a.replies.expect(b, b"in", MANY, 0))
    waiting = list(a.replies._order.values())
    assert len(a.replies) == len(waiting) == 300
    assert all(each in a.replies._open for each in waiting)
    assert waiting.index(asked[2]) > waiting.index(asked[299])
    waiting.remove(asked[2])
    assert waiting == asked[-299:]
    largest = max(map(len, a.replies._order.parts))
    assert largest <= 4096, "so many are looked at for the first at most"
