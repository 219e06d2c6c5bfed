"""Interest behind a stand-in."""

from __future__ import annotations

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


def test_a_relay_to_nowhere_reaches_nothing():
    sublist = Sublist()
    sublist.insert(Subscription(b"_R_.a.*", Behind(None)))
    assert resolved(sublist.match(b"_R_.a.b"), b"_R_.a.b").empty
