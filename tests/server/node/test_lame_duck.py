"""Moving clients on, one by one."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from jetstream_server.base.clock import SECOND
from jetstream_server.node.lame_duck import LameDuck

HELLO = b'{"verbose":false,"pedantic":false,"protocol":%d}'


class Someone:
    def __init__(self):
        self.closing = ""

    def close(self, reason):
        self.closing = reason


def plan(count, *, duration=30, grace=1):
    people = [Someone() for _ in range(count)]
    duck = LameDuck(
        people, 0, duration_ns=duration * SECOND, grace_ns=grace * SECOND, random=Random(1)
    )
    return people, duck


def test_nobody():
    assert plan(0)[1].is_over


def test_after_the_grace_period_at_most_a_second_apart():
    people, duck = plan(6)
    duck.run(SECOND - 1)
    assert not any(each.closing for each in people) and not duck.has_begun_closing
    times = []
    while not duck.is_over:
        times.append(duck.next_deadline())
        duck.run(times[-1])
    assert [each.closing for each in people] == ["Server Shutdown"] * 6
    assert times[0] == SECOND
    assert all(SECOND // 2 <= b - a <= SECOND for a, b in pairwise(times))


def test_many_are_done_in_time():
    people, duck = plan(500, duration=30, grace=10)
    duck.run(30 * SECOND)
    assert duck.is_over and all(each.closing for each in people)


def test_who_goes_by_itself_is_not_waited_for():
    people, duck = plan(3)
    for each in people:
        each.closing = "Client Closed"
    duck.run(1)
    assert duck.is_over


def test_clients_are_told(node, make_client):
    modern, fresh, old = make_client(node), make_client(node), make_client(node)
    modern.connect(HELLO % 1)
    modern.say(b"PING\r\n")
    fresh.connect(HELLO % 1)
    old.connect(HELLO % 0)
    old.say(b"PING\r\n")
    duck = node.enter_lame_duck(modern.now)
    assert node.enter_lame_duck(modern.now) is duck
    said = modern.read()
    assert said.startswith(b"INFO {") and b'"ldm":true' in said and b"connect_info" not in said
    assert fresh.read() == old.read() == b"", "who has not said that it understands is not told"
    for client in (modern, fresh, old):
        client.session.feed(b"PING\r\n")
    node.run(duck.next_deadline())
    assert sum(bool(each.closing) for each in node.sessions.values()) == 1
