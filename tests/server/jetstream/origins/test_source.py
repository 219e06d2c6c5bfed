"""Sources in the same account, through the API, on simulated time."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.consumers.origin_consumer import stream_identity
from jetstream_server.jetstream.streams.messages.publish_headers import header
from jetstream_server.protocol.ops import PubRun

SET_UP = 300 * MILLISECOND


def create(account: Any, name: str, **config: Any) -> dict[str, Any]:
    return dict(account.ask(f"STREAM.CREATE.{name}", {"name": name, **config}))


def update(account: Any, name: str, **config: Any) -> dict[str, Any]:
    return dict(account.ask(f"STREAM.UPDATE.{name}", {"name": name, **config}))


def publish(account: Any, subject: bytes, payload: bytes = b"", *lines: bytes) -> None:
    account.now += 1000
    block = b"NATS/1.0\r\n" + b"".join(b"%b\r\n" % line for line in lines) + b"\r\n"
    run = PubRun.single(subject, b"", block if lines else b"", payload)
    for sub in account.sublist.match(subject).plain:
        sub.receiver.receive(Stretch(run, 0, 1, sub, None, account.now))
    account.turn()


def contents(account: Any, name: str = "S") -> list[tuple[bytes, bytes]]:
    store = account.catalog.streams[name].store
    found = [store.load(sequence) for sequence in range(1, store.last_seq + 1)]
    return [(message.subject, message.payload) for message in found if message]


def origins(account: Any, name: str = "S") -> list[bytes]:
    """Return the header of each message, without the identity."""
    store = account.catalog.streams[name].store
    found = [store.load(sequence) for sequence in range(1, store.last_seq + 1)]
    return [
        header(message.headers, b"Nats-Stream-Source").rpartition(b" ")[0]
        for message in found
        if message
    ]


def restart(account: Any, make: Callable[[], Any]) -> Any:
    account.catalog.stop(account.now)
    account.commit.drain()
    again = make()
    again.now = account.now
    return again


def test_messages_of_several_streams_in_one(transfers: Any) -> None:
    for name in ("O", "P"):
        transfers.stream(name)
        publish(transfers, name.lower().encode() + b".1", b"m")
    create(transfers, "S", subjects=["s"], sources=[{"name": "O"}, {"name": "P"}])
    publish(transfers, b"s", b"own")
    transfers.advance(SET_UP)
    publish(transfers, b"p.2", b"n")
    assert sorted(contents(transfers)) == [
        (b"o.1", b"m"),
        (b"p.1", b"m"),
        (b"p.2", b"n"),
        (b"s", b"own"),
    ]
    infos = transfers.ask("STREAM.INFO.S")["sources"]
    assert [(info["name"], info["seq"], info["lag"]) for info in infos] == [
        ("O", 1, 0),
        ("P", 2, 0),
    ]


def test_the_header_tells_where_a_message_comes_from(transfers: Any) -> None:
    transfers.stream("O")
    publish(transfers, b"o.1", b"m", b"K: v", b"Nats-Expected-Stream: O")
    create(transfers, "S", sources=[{"name": "O"}])
    transfers.advance(SET_UP)
    message = transfers.catalog.streams["S"].store.load(1)
    identity = stream_identity(transfers.catalog.streams["O"])
    line = b"Nats-Stream-Source: O 1 > > o.1 " + identity
    assert message.headers == b"NATS/1.0\r\nK: v\r\n%b\r\n\r\n" % line


def test_a_source_of_a_source_names_the_nearest(transfers: Any) -> None:
    transfers.stream("O", count=2)
    create(transfers, "S", sources=[{"name": "O"}])
    create(transfers, "T", sources=[{"name": "S"}])
    transfers.advance(SECOND)
    assert origins(transfers, "T") == [b"S 1 > > o.0", b"S 2 > > o.1"]


def test_filters_transforms_and_starts(transfers: Any) -> None:
    transfers.stream("O", count=9)
    rules = [{"src": "o.0", "dest": "zero"}, {"src": "o.2", "dest": ""}]
    sources = [
        {"name": "O", "filter_subject": "o.1", "opt_start_seq": 4},
        {"name": "O", "subject_transforms": rules, "opt_start_seq": 7},
    ]
    create(transfers, "S", sources=sources, subject_transform={"src": ">", "dest": "t.>"})
    transfers.advance(SET_UP)
    assert sorted(subject for subject, _ in contents(transfers)) == [
        b"t.o.1",
        b"t.o.1",
        b"t.o.2",
        b"t.zero",
    ]
    assert sorted(origins(transfers)) == [
        b"O 5 o.1 > o.1",
        b"O 7 o.0\x0co.2 zero\x0c> o.0",
        b"O 8 o.1 > o.1",
        b"O 9 o.0\x0co.2 zero\x0c> o.2",
    ]


def test_only_one_that_renames_has_something_to_draw_from(
    transfers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes 10 microseconds to make, and a stream may have a thousand sources."""
    create(transfers, "O", subjects=["o.*"])
    publish(transfers, b"o.1")
    seeds: list[object] = []
    made = Random.__init__

    def noted(self: Random, seed: object = None) -> None:
        if str(seed).startswith("O "):
            seeds.append(seed)
        made(self, seed)

    monkeypatch.setattr(Random, "__init__", noted)
    create(transfers, "S", sources=[{"name": "O"}])
    transfers.advance(SET_UP)
    assert (contents(transfers), seeds) == ([(b"o.1", b"")], [])
    transforms = [{"src": "o.*", "dest": "t.{{wildcard(1)}}.{{random(9)}}"}]
    create(transfers, "T", sources=[{"name": "O", "subject_transforms": transforms}])
    transfers.advance(SET_UP)
    assert len(contents(transfers, "T")) == 1
    assert seeds == ["O o.* t.{{wildcard(1)}}.{{random(9)}}"]


@pytest.mark.parametrize("more", [{}, {"max_msgs": 100, "discard": "new"}])
def test_it_stays_before_a_subject_that_is_too_long_under_its_new_name(
    transfers: Any, more: dict[str, Any]
) -> None:
    transfers.stream("O")
    rules = [{"src": "o.*", "dest": "o." + ".".join(["$1"] * 60)}]
    create(transfers, "S", sources=[{"name": "O", "subject_transforms": rules}], **more)
    transfers.advance(SET_UP)
    for token in (b"a", b"b", b"x" * 1100, b"c"):
        transfers.publish(b"o." + token, b"m")
    transfers.advance(60 * SECOND)
    assert [subject[:4] for subject, _ in contents(transfers)] == [b"o.a.", b"o.b."]


def test_duplicates_are_left_out(transfers: Any) -> None:
    transfers.stream("O")
    for number in (b"1", b"2"):
        publish(transfers, b"o.1", number, b"Nats-Msg-Id: " + number)
    create(transfers, "S", subjects=["s"], sources=[{"name": "O"}], duplicate_window=60 * SECOND)
    publish(transfers, b"s", b"own", b"Nats-Msg-Id: 2")
    transfers.advance(SET_UP)
    publish(transfers, b"o.2", b"3")
    assert [payload for _, payload in contents(transfers)] == [b"own", b"1", b"3"]
    assert transfers.ask("STREAM.INFO.S")["sources"][0]["seq"] == 3


def test_rollups_count_where_they_are_allowed(transfers: Any) -> None:
    transfers.stream("O", allow_rollup_hdrs=True)
    create(transfers, "S", sources=[{"name": "O"}], allow_rollup_hdrs=True)
    create(transfers, "T", sources=[{"name": "O"}])
    transfers.advance(SET_UP)
    publish(transfers, b"o.1", b"1")
    publish(transfers, b"o.1", b"2", b"Nats-Rollup: sub")
    assert contents(transfers, "S") == [(b"o.1", b"2")]
    assert contents(transfers, "T") == [(b"o.1", b"1"), (b"o.1", b"2")]


def test_it_goes_on_after_a_restart(transfers: Any, make_transfers: Callable[[], Any]) -> None:
    transfers.stream("O", count=5)
    create(transfers, "S", sources=[{"name": "O", "filter_subject": "o.1"}, {"name": "O"}])
    transfers.advance(SET_UP)
    again = restart(transfers, make_transfers)
    infos = again.ask("STREAM.INFO.S")["sources"]
    assert [info["seq"] for info in infos] == [5, 5]
    publish(again, b"o.1", b"new")
    again.advance(SET_UP)
    assert len(contents(again)) == 7 + 2
    assert sorted(origins(again)[-2:]) == [b"O 6 > > o.1", b"O 6 o.1 > o.1"]


def test_a_restart_looks_far_back(
    transfers: Any, make_transfers: Callable[[], Any], monkeypatch: Any
) -> None:
    monkeypatch.setattr("jetstream_server.jetstream.origins.last_positions.STRETCH", 3)
    transfers.stream("O", count=2)
    create(transfers, "S", subjects=["s"], sources=[{"name": "O"}])
    transfers.advance(SET_UP)
    for number in range(20):
        publish(transfers, b"s", b"%d" % number)
    again = restart(transfers, make_transfers)
    again.advance(SET_UP)
    assert len(contents(again)) == 22


def test_a_source_comes_back_to_a_long_stream(transfers: Any, monkeypatch: Any) -> None:
    module = "jetstream_server.jetstream.origins.last_positions."
    monkeypatch.setattr(module + "STRETCH", 3)
    monkeypatch.setattr(module + "MESSAGES_AT_ONCE", 1)
    transfers.stream("O", count=3)
    create(transfers, "S", subjects=["s"], sources=[{"name": "O"}])
    transfers.advance(SET_UP)
    update(transfers, "S", subjects=["s"], sources=[])
    for number in range(20):
        publish(transfers, b"s", b"%d" % number)
        publish(transfers, b"o.1", b"more")
    with pytest.raises(json.JSONDecodeError):  # silence: it takes turns
        update(transfers, "S", subjects=["s"], sources=[{"name": "O"}])
    publish(transfers, b"s", b"meanwhile")
    assert not transfers.catalog.streams["S"].config.sources
    transfers.advance(2 * SET_UP)
    assert transfers.catalog.streams["S"].config.sources
    assert len(contents(transfers)) == 3 + 20 + 1 + 20


def test_sources_come_and_go_and_come_back(transfers: Any) -> None:
    transfers.stream("O", count=3)
    one, other = ({"name": "O", "filter_subject": subject} for subject in ("o.1", "o.2"))
    create(transfers, "S", sources=[one])
    transfers.advance(SET_UP)
    assert update(transfers, "S", sources=[other])["sources"][0]["active"] == -1
    transfers.advance(SET_UP)
    publish(transfers, b"o.1")
    update(transfers, "S", sources=[other, one])
    transfers.advance(SET_UP)
    assert [subject for subject, _ in contents(transfers)] == [b"o.1", b"o.2", b"o.1"]
    assert "sources" not in update(transfers, "S")
    publish(transfers, b"o.1")
    transfers.advance(SET_UP)
    assert len(contents(transfers)) == 3
    assert not transfers.catalog.streams["O"].consumers


def test_an_unchanged_source_is_left_running(transfers: Any) -> None:
    transfers.stream("O", count=3)
    create(transfers, "S", sources=[{"name": "O"}])
    transfers.advance(SET_UP)
    consumers = list(transfers.catalog.streams["O"].consumers)
    update(transfers, "S", sources=[{"name": "O"}], max_msgs=10)
    transfers.advance(SET_UP)
    assert list(transfers.catalog.streams["O"].consumers) == consumers


def test_an_origin_that_is_made_anew_is_read_from_its_beginning(transfers: Any) -> None:
    transfers.stream("O", count=3)
    create(transfers, "S", sources=[{"name": "O"}])
    transfers.advance(SET_UP)
    transfers.ask("STREAM.DELETE.O")
    transfers.stream("O")
    publish(transfers, b"o.9", b"new")
    transfers.advance(11 * SECOND)
    assert contents(transfers)[3:] == [(b"o.9", b"new")]
    assert transfers.ask("STREAM.INFO.S")["sources"][0]["seq"] == 1


def test_a_full_stream_takes_the_rest_when_there_is_room(transfers: Any) -> None:
    transfers.stream("O", count=5)
    create(transfers, "S", sources=[{"name": "O"}], max_msgs=2, discard="new")
    transfers.advance(SECOND)
    assert origins(transfers) == [b"O 1 > > o.0", b"O 2 > > o.1"]
    for _ in range(2):
        transfers.ask("STREAM.PURGE.S")
        transfers.advance(5 * SECOND)
    assert origins(transfers) == [b"O 5 > > o.1"]


def test_counters_add_up(transfers: Any) -> None:
    for name in ("A", "B"):
        transfers.stream(name, allow_msg_counter=True)
        transfer = [{"src": f"{name.lower()}.*", "dest": "s.$1"}]
        publish(transfers, name.lower().encode() + b".x", b"", b"Nats-Incr: 5")
        publish(transfers, name.lower().encode() + b".x", b"", b"Nats-Incr: 2")
        sources = [{"name": name, "subject_transforms": transfer}]
        sources += transfers.catalog.streams["S"].config.to_wire()["sources"] if name == "B" else []
        (create if name == "A" else update)(transfers, "S", sources=sources, allow_msg_counter=True)
        transfers.advance(SET_UP)
    store = transfers.catalog.streams["S"].store
    newest = store.load(store.last_seq)
    assert newest.payload == b'{"val":"14"}'
    accounts = header(newest.headers, b"Nats-Counter-Sources")
    assert accounts == b'{"A":{"a.x":"7"},"B":{"b.x":"7"}}'


def test_a_note_of_what_was_lost_is_not_believed_when_its_sequences_are_used_again(
    transfers: Any, make_transfers: Callable[[], Any]
) -> None:
    transfers.stream("O", count=5)
    create(transfers, "S", subjects=["s"], sources=[{"name": "O"}])
    transfers.advance(SET_UP)
    transfers.catalog.stop(transfers.now)
    note = {"last_seq": 7, "sources": {"O > >": [7, ""]}}  # two more came, and were lost
    transfers.catalog.streams["S"].folder.sources().save(json.dumps(note).encode())
    transfers.commit.drain()
    for _ in range(2):
        again = make_transfers()
        again.catalog.recover(again.now)
        for _ in range(4):
            publish(again, b"s")
        again.commit.drain()  # and then it is killed
    again.advance(SET_UP)
    publish(again, b"o.1")
    again.advance(SET_UP)
    copied = [origin for origin in origins(again) if origin]
    assert copied == [b"O %d > > o.%d" % (n, k) for n, k in enumerate((0, 1, 2, 0, 1, 1), 1)]


def test_a_counter_whose_subject_is_not_utf8_adds_up(
    transfers: Any, make_transfers: Callable[[], Any]
) -> None:
    transfers.stream("A", allow_msg_counter=True)
    create(transfers, "S", sources=[{"name": "A"}], allow_msg_counter=True)
    transfers.advance(SET_UP)
    for _ in range(2):
        publish(transfers, b"a.\xff", b"", b"Nats-Incr: 1")
        transfers.advance(SECOND)
    store = transfers.catalog.streams["S"].store
    assert store.load(store.last_seq).payload == b'{"val":"2"}'
    transfers.catalog.stop(transfers.now)
    transfers.commit.drain()
    again = make_transfers()
    again.catalog.recover(again.now)
    again.advance(SET_UP)
    publish(again, b"a.\xff", b"", b"Nats-Incr: 1")
    again.advance(SECOND)
    store = again.catalog.streams["S"].store
    assert store.load(store.last_seq).payload == b'{"val":"3"}'


def test_an_interest_stream_uses_sequences_for_what_nobody_wants(transfers: Any) -> None:
    transfers.stream("O", count=3)
    create(transfers, "S", sources=[{"name": "O"}], retention="interest")
    transfers.advance(SET_UP)
    state = transfers.ask("STREAM.INFO.S")["state"]
    assert (state["messages"], state["last_seq"]) == (0, 3)


def test_many_messages_come_through_flow_control(transfers: Any) -> None:
    transfers.stream("O", count=300, size=50_000)
    create(transfers, "S", sources=[{"name": "O"}])
    transfers.advance(SET_UP)
    assert contents(transfers) == contents(transfers, "O")


def test_what_was_consumed_is_not_sourced_again(
    transfers: Any, make_transfers: Callable[[], Any]
) -> None:
    transfers.stream("O", count=5)
    create(transfers, "S", subjects=["s"], sources=[{"name": "O"}])
    transfers.advance(SET_UP)
    transfers.ask("STREAM.PURGE.S")
    transfers.advance(SECOND)
    again = restart(transfers, make_transfers)
    assert again.ask("STREAM.INFO.S")["sources"][0]["seq"] == 5
    publish(again, b"o.1", b"new")
    again.advance(SET_UP)
    assert contents(again) == [(b"o.1", b"new")]


def test_a_note_about_messages_that_are_lost_is_not_believed(
    transfers: Any, make_transfers: Callable[[], Any]
) -> None:
    transfers.stream("O", count=5)
    create(transfers, "S", sources=[{"name": "O"}])
    transfers.advance(SECOND)
    stream = transfers.catalog.streams["S"]
    note = b'{"last_seq":99,"sources":{"O > >":[50,""]}}'
    stream.folder.sources().save(note)
    again = restart(transfers, make_transfers)
    assert again.ask("STREAM.INFO.S")["sources"][0]["seq"] == 5


def test_a_damaged_note_is_no_obstacle(transfers: Any, make_transfers: Callable[[], Any]) -> None:
    transfers.stream("O", count=5)
    create(transfers, "S", sources=[{"name": "O"}])
    transfers.advance(SECOND)
    transfers.catalog.streams["S"].folder.sources().save(b'{"sources":[1]}')
    again = restart(transfers, make_transfers)
    assert again.ask("STREAM.INFO.S")["sources"][0]["seq"] == 5
