"""How many Python functions are called for a message: none, when many come together.

The unit of flow is a batch. A call per message that slips into a hot path costs as much as all the
rest, and no test of behaviour would notice, so the calls of a turn are counted here: a turn over
ten times as many messages must not take noticeably more of them. Kernels are left out, as their
pure twins do work on single messages; so are streams in memory, whose store is plain on purpose.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jetstream_server import kernels
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.node.node import Node
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.vault import FileVault

from tests.node_context import node_context

KERNELS = os.path.dirname(kernels.__file__)  # noqa: PTH120 - compared with code file names
MESSAGES = 3000
CALLS_PER_MESSAGE_MAX = 0.02
CALLS_PER_QUESTION = 500
INBOX = b"_INBOX.x"


def _is_of_a_kernel(frame: Any) -> bool:
    """Tell whether a call is a pure kernel's own, or what it calls where the compiled does not."""
    return any(
        each is not None and each.f_code.co_filename.startswith(KERNELS)
        for each in (frame, frame.f_back)
    )


class Bench:
    """A node with a stream B, and one client that counts what its bytes set off."""

    def __init__(self, node: Node, client: Any, folder: Path) -> None:
        self.commit = GroupCommit(OsDisk())
        account = node.accounts["$G"]
        context = node_context(node, account)
        account.catalog = Catalog(context, FileVault(folder, "$G", self.commit, OsDisk()))
        account.catalog.recover(client.now)
        Api(account.catalog).subscribe()
        self.client = client
        client.connect(b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}')
        self.say(b"SUB %b.* 1\r\n" % INBOX)
        self.ask("STREAM.CREATE.B", b'{"name":"B","subjects":["b.>"]}')

    def say(self, data: bytes) -> bytes:
        self.client.session.feed(data)
        return self.turn()

    def turn(self) -> bytes:
        node, now = self.client.node, self.client.now
        answer = b""
        while True:
            node.run(now)
            assert not self.commit.drain()
            node.release(node.take_held(), now)
            if not (output := self.client.read()):
                return answer
            answer += output

    def ask(self, api: str, body: bytes) -> bytes:
        answer = self.say(
            b"PUB $JS.API.%b %b.api %d\r\n%b\r\n" % (api.encode(), INBOX, len(body), body)
        )
        assert b'"error"' not in answer, answer
        return answer

    def calls(self, act: Callable[[], bytes], expected: bytes, count: int) -> int:
        """Return the number of function calls of `act`, which answers `count` times `expected`."""
        called = 0

        def count_call(frame: Any, event: str, argument: object) -> None:
            nonlocal called
            if event == "call" and not _is_of_a_kernel(frame):
                called += 1

        sys.setprofile(count_call)
        try:
            answer = act()
        finally:
            sys.setprofile(None)
        assert answer.count(expected) == count, answer[:500]
        return called


@pytest.fixture
def bench(make_node: Any, make_client: Any, tmp_path: Path) -> Bench:
    node = make_node()
    node.options = dataclasses.replace(node.options, max_pending=1 << 30)
    return Bench(node, make_client(node), tmp_path)


def assert_flat(calls: Callable[[int], int]) -> None:
    """Compare the calls for few messages with those for many."""
    calls(MESSAGES // 10)  # whatever happens only once
    few, many = calls(MESSAGES // 10), calls(MESSAGES)
    per_message = (many - few) / (MESSAGES - MESSAGES // 10)
    assert per_message < CALLS_PER_MESSAGE_MAX, f"{few} calls, then {many}"


def published(count: int, subject: bytes = b"b.a", first: int = 0) -> bytes:
    numbers = range(first, first + count)
    return b"".join(b"PUB %b %b.%d 100\r\n%0100d\r\n" % (subject, INBOX, i, i) for i in numbers)


def test_publishing(bench: Bench) -> None:
    def calls(count: int) -> int:
        data = published(count)
        return bench.calls(lambda: bench.say(data), b'"seq":', count)

    assert_flat(calls)


@pytest.mark.parametrize("subject", [b"b.%d", b"b.%d.temperature", b"b.%d.hall.2.temperature"])
def test_publishing_to_many_subjects(bench: Bench, subject: bytes) -> None:
    first = 0

    def calls(count: int) -> int:
        nonlocal first
        numbers = range(first, first + count)
        first += count
        data = b"".join(b"PUB %b %b.%d 1\r\nx\r\n" % (subject % i, INBOX, i) for i in numbers)
        return bench.calls(lambda: bench.say(data), b'"seq":', count)

    assert_flat(calls)


@pytest.mark.parametrize("lines", [b"", b"Nats-Expected-Stream: B\r\nX: y\r\n"])
def test_publishing_with_ids(bench: Bench, lines: bytes) -> None:
    first = 0

    def calls(count: int) -> int:
        nonlocal first
        numbers = range(first, first + count)
        first += count
        blocks = [b"NATS/1.0\r\nNats-Msg-Id: %d\r\n%b\r\n" % (i, lines) for i in numbers]
        data = b"".join(
            b"HPUB b.a %b.1 %d %d\r\n%bx\r\n" % (INBOX, len(block), len(block) + 1, block)
            for block in blocks
        )
        return bench.calls(lambda: bench.say(data), b'"seq":', count)

    assert_flat(calls)


def make_consumer(bench: Bench, policy: str, more: str = "") -> None:
    config = f'"durable_name":"C","ack_policy":"{policy}","max_ack_pending":100000{more}'
    bench.ask("CONSUMER.CREATE.B.C", f'{{"stream_name":"B","config":{{{config}}}}}'.encode())


def pull(count: int, inbox: bytes = INBOX, more: bytes = b"") -> bytes:
    body = b'{"batch":%d,"expires":1000000000%b}' % (count, more)
    return b"PUB $JS.API.CONSUMER.MSG.NEXT.B.C %b.pull %d\r\n%b\r\n" % (inbox, len(body), body)


@pytest.mark.parametrize("policy", ["none", "explicit"])
def test_pulling(bench: Bench, policy: str) -> None:
    bench.say(published(2 * MESSAGES))
    make_consumer(bench, policy)

    def calls(count: int) -> int:
        return bench.calls(lambda: bench.say(pull(count)), b"$JS.ACK.B.C.1.", count)

    assert_flat(calls)


def test_publishing_where_a_limit_takes_what_is_pending(bench: Bench) -> None:
    config = b'{"name":"B","subjects":["b.>"],"max_msgs":%d}' % (2 * MESSAGES)
    bench.ask("STREAM.UPDATE.B", config)
    bench.say(published(2 * MESSAGES))
    make_consumer(bench, "explicit")
    assert bench.say(pull(2 * MESSAGES)).count(b"$JS.ACK.") == 2 * MESSAGES

    def calls(count: int) -> int:
        data = published(count)
        return bench.calls(lambda: bench.say(data), b'"seq":', count)

    assert_flat(calls)


def test_pulling_ahead(bench: Bench) -> None:
    bench.say(published(2 * MESSAGES))
    make_consumer(bench, "none")

    def calls(count: int) -> int:
        pulls = pull(count // 2) * 2
        return bench.calls(lambda: bench.say(pulls), b"$JS.ACK.B.C.1.", count)

    assert_flat(calls)


def test_pulling_by_several_inboxes(bench: Bench) -> None:
    bench.say(published(2 * MESSAGES))
    for sid in (2, 3, 4):
        bench.say(b"SUB in.%d.* %d\r\n" % (sid, sid))
    make_consumer(bench, "explicit")

    def calls(count: int) -> int:
        pulls = b"".join(pull(count // 3, b"in.%d" % sid) for sid in (2, 3, 4))
        return bench.calls(lambda: bench.say(pulls), b"$JS.ACK.B.C.1.", count)

    assert_flat(calls)


def test_pulling_headers_only(bench: Bench) -> None:
    bench.say(published(2 * MESSAGES))
    make_consumer(bench, "explicit", ',"headers_only":true')

    def calls(count: int) -> int:
        return bench.calls(lambda: bench.say(pull(count)), b"Nats-Msg-Size: 100\r\n", count)

    assert_flat(calls)


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        ("overflow", b',"min_pending":1'),
        ("pinned_client", b""),
        ("prioritized", b',"priority":1'),
    ],
)
def test_pulling_in_a_priority_group(bench: Bench, policy: str, more: bytes) -> None:
    bench.say(published(2 * MESSAGES))
    bench.say(b"SUB in.* 2\r\n")

    def calls(count: int) -> int:
        bench.say(b"PUB $JS.API.CONSUMER.DELETE.B.C %b.api 0\r\n\r\n" % INBOX)
        make_consumer(bench, "explicit", f',"priority_policy":"{policy}","priority_groups":["g"]')
        bench.say(pull(1, b"in", b',"group":"g"'))
        if policy == "pinned_client":
            bench.say(b'PUB $JS.API.CONSUMER.UNPIN.B.C %b.api 13\r\n{"group":"g"}\r\n' % INBOX)
        pulls = pull(count, INBOX, b',"group":"g"' + more)
        return bench.calls(lambda: bench.say(pulls), b"$JS.ACK.B.C.1.", count)

    assert_flat(calls)


@pytest.mark.parametrize("every", [1, 3])
def test_redelivering(bench: Bench, every: int) -> None:
    """All of what was delivered, and what is left of it between acks."""
    bench.say(published(2 * every * MESSAGES))
    bench.say(b"SUB in.* 2\r\n")
    make_consumer(bench, "explicit", ',"ack_wait":5000000000')

    def calls(count: int) -> int:
        lines = bench.say(pull(every * count)).split(b"\r\n")
        replies = [line.split(b" ")[3] for line in lines if line.startswith(b"MSG b.a ")]
        acked = [reply for at, reply in enumerate(replies) if at % every]
        bench.say(b"".join(b"PUB %b 0\r\n\r\n" % reply for reply in acked))
        bench.client.now += 6_000_000_000

        def twice() -> bytes:
            again = bench.turn() + bench.say(pull(count // 2) + pull(count - count // 2, b"in"))
            bench.client.now += 6_000_000_000
            return again + bench.turn() + bench.say(pull(count))

        called = bench.calls(twice, b"$JS.ACK.B.C.", 2 * count)
        lines = bench.say(b"PING\r\n").split(b"\r\n")
        bench.say(b"".join(b"PUB %b 0\r\n\r\n" % reply for reply in replies))
        assert b'"num_ack_pending":0,"num_redelivered":0,' in bench.ask("CONSUMER.INFO.B.C", b"")
        return called

    assert_flat(calls)


def test_acknowledging_what_went_out_again(bench: Bench) -> None:
    bench.say(published(2 * MESSAGES))
    make_consumer(bench, "explicit", ',"ack_wait":5000000000')

    def calls(count: int) -> int:
        lines = bench.say(pull(count)).split(b"\r\n")
        replies = [line.split(b" ")[3] for line in lines if line.startswith(b"MSG b.a ")]
        bench.client.now += 6_000_000_000
        bench.turn()
        assert bench.say(pull(count)).count(b"$JS.ACK.B.C.2.") == count
        acks = b"".join(b"PUB %b 0\r\n\r\n" % reply for reply in replies)
        return bench.calls(lambda: bench.say(acks), b"MSG", 0)

    assert_flat(calls)
    assert b'"num_ack_pending":0,"num_redelivered":0,' in bench.ask("CONSUMER.INFO.B.C", b"")


def test_the_newest_of_many_subjects(bench: Bench) -> None:
    """What a watcher of a key-value bucket gets at first."""

    def calls(count: int) -> int:
        bench.ask("STREAM.PURGE.B", b"")
        bench.say(b"".join(b"PUB b.%d 1\r\nx\r\n" % (i // 2) for i in range(2 * count)))
        bench.say(b"PUB $JS.API.CONSUMER.DELETE.B.C %b.api 0\r\n\r\n" % INBOX)
        fields = ',"deliver_policy":"last_per_subject","filter_subject":"b.>"'
        make_consumer(bench, "none", fields)
        return bench.calls(lambda: bench.say(pull(count)), b"$JS.ACK.B.C.1.", count)

    assert_flat(calls)


def test_pushing_with_flow_control(bench: Bench) -> None:
    """A question and its answer cost a few turns, however much goes between two of them."""
    bench.say(b"SUB to.me 2\r\n")
    more = ',"deliver_subject":"to.me","flow_control":true,"idle_heartbeat":1000000000'
    make_consumer(bench, "explicit", more)
    questions = 0

    def push(data: bytes) -> bytes:
        nonlocal questions
        answer = got = bench.say(data)
        while b"100 FlowControl Request" in got:
            questions += 1
            head = got[got.rindex(b"HMSG to.me") :]
            got = bench.say(b"PUB %b 0\r\n\r\n" % head.split(b" ")[3])
            answer += got
        return answer

    def calls(count: int) -> int:
        data = b"".join(b"PUB b.a 1000\r\n%01000d\r\n" % i for i in range(count))
        called = bench.calls(lambda: push(data), b"$JS.ACK.B.C.1.", count)
        return called - questions * CALLS_PER_QUESTION

    assert_flat(calls)
    assert 1 < questions < 10


def test_direct_get_batches(bench: Bench) -> None:
    bench.ask("STREAM.UPDATE.B", b'{"name":"B","subjects":["b.>"],"allow_direct":true}')
    bench.say(published(MESSAGES))

    def calls(count: int) -> int:
        body = b'{"seq":1,"next_by_subj":"b.>","batch":%d}' % count
        get = b"PUB $JS.API.DIRECT.GET.B %b.1 %d\r\n%b\r\n" % (INBOX, len(body), body)
        return bench.calls(lambda: bench.say(get), b"Nats-Subject: b.a", count)

    assert_flat(calls)


def test_direct_gets_of_the_last_of_each_subject(bench: Bench) -> None:
    bench.ask("STREAM.UPDATE.B", b'{"name":"B","subjects":["b.>"],"allow_direct":true}')
    for number in range(1000):
        bench.say(b"PUB b.%d 1\r\nx\r\n" % number)

    def calls(count: int) -> int:
        body = b'{"multi_last":["b.*"],"batch":%d}' % min(count, 1000)
        get = b"PUB $JS.API.DIRECT.GET.B %b.1 %d\r\n%b\r\n" % (INBOX, len(body), body)
        return bench.calls(lambda: bench.say(get), b"Nats-Subject: b.", min(count, 1000))

    assert_flat(calls)


@pytest.mark.parametrize("is_by_subject", [False, True])
def test_direct_gets_in_a_row(bench: Bench, is_by_subject: bool) -> None:
    bench.ask("STREAM.UPDATE.B", b'{"name":"B","subjects":["b.>"],"allow_direct":true}')
    bench.say(published(MESSAGES))

    def calls(count: int) -> int:
        bodies = (b'{"seq":%d}' % (1 + number * 7 % MESSAGES) for number in range(count))
        gets = b"".join(
            b"PUB $JS.API.DIRECT.GET.B %b.1 %d\r\n%b\r\n" % (INBOX, len(body), body)
            for body in bodies
        )
        if is_by_subject:
            gets = b"PUB $JS.API.DIRECT.GET.B.b.a %b.1 0\r\n\r\n" % INBOX * count
        return bench.calls(lambda: bench.say(gets), b"Nats-Subject: b.a", count)

    assert_flat(calls)


def test_acknowledging(bench: Bench) -> None:
    bench.say(published(2 * MESSAGES))
    make_consumer(bench, "explicit")

    def calls(count: int) -> int:
        lines = bench.say(pull(count)).split(b"\r\n")
        replies = [line.split(b" ")[3] for line in lines if line.startswith(b"MSG b.a ")]
        acks = b"".join(b"PUB %b 0\r\n\r\n" % reply for reply in replies)
        assert len(replies) == count
        return bench.calls(lambda: bench.say(acks), b"MSG", 0)

    assert_flat(calls)
    assert b'"num_ack_pending":0,' in bench.ask("CONSUMER.INFO.B.C", b"")


def test_delivering_to_subscribers(bench: Bench) -> None:
    for sid in range(2, 5):
        bench.say(b"SUB news.> %d\r\n" % sid)

    def calls(count: int) -> int:
        data = b"".join(b"PUB news.%d 1\r\nx\r\n" % i for i in range(count))
        return bench.calls(lambda: bench.say(data), b"MSG news.", 3 * count)

    assert_flat(calls)
