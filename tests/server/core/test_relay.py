"""Interest behind a stand-in."""

from __future__ import annotations

from collections import Counter

from jetstream_server.core import match as match_module
from jetstream_server.core.relay import Relay, resolved
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Subscription


class Behind(Relay):
    def __init__(self, sublist):
        self.sublist = sublist

    def behind(self, subject):
        return None if self.sublist is None else self.sublist.match(b"inbox")


def test_relays_are_replaced_by_what_is_behind_them():
    far, near = Sublist(), Sublist()
    client = Subscription(b"inbox", object(), sid=b"1")
    member = Subscription(b"inbox", object(), queue=b"q", sid=b"2")
    watcher = Subscription(b">", object(), sid=b"3")
    far.insert(client)
    far.insert(member)
    near.insert(Subscription(b"_R_.a.*", Behind(far)))
    near.insert(watcher)
    match = resolved(near.match(b"_R_.a.b"), b"_R_.a.b")
    assert set(match.plain) == {client, watcher}
    assert match.queues == [(member,)]


def test_of_very_many_relays_are_replaced_in_each_piece(monkeypatch):
    monkeypatch.setattr(match_module, "COLLECTED_AT_ONCE_MAX", 10)
    monkeypatch.setattr(match_module, "PIECE_MAX", 4)
    far, near = Sublist(), Sublist()
    behind = [Subscription(b"inbox", object(), sid=b"%d" % n) for n in range(20)]
    watchers = [Subscription(b">", object(), sid=b"%d" % n) for n in range(30)]
    for each in behind:
        far.insert(each)
    for each in watchers:
        near.insert(each)
    near.insert(Subscription(b"_R_.a.*", Behind(far)))
    match = resolved(near.match(b"_R_.a.b"), b"_R_.a.b")
    assert match.crowd is not None and not match.empty
    assert Counter(match.subscriptions()) == Counter(behind + watchers)


def test_a_relay_to_nowhere_reaches_nothing():
    sublist = Sublist()
    sublist.insert(Subscription(b"_R_.a.*", Behind(None)))
    assert resolved(sublist.match(b"_R_.a.b"), b"_R_.a.b").empty
