"""What a stream copies from: found again in its messages, followed when its config changes."""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.configs.stream_config import OriginConfig
from jetstream_server.jetstream.origins import sourcing
from jetstream_server.jetstream.origins.source_header import SourcePosition
from jetstream_server.jetstream.origins.sourcing import last_positions


def block(value: str) -> bytes:
    return b"NATS/1.0\r\nNats-Stream-Source: %b\r\n\r\n" % value.encode()


def test_the_newest_position_of_each_source(bench: Any, monkeypatch: Any) -> None:
    store = bench.stream().store
    for value in ("O 1 > > s a", "P 9 > > s b", "O 2 > > s a", "", "no header", "Q 5 > > s"):
        store.append(b"s", block(value) if value else b"", b"O 77 > > s a", 1)
    keys = {"O > >", "P > >", "R > >"}
    for step in (1, 2, 100):
        monkeypatch.setattr(sourcing, "_STEP", step)
        assert last_positions(store, keys) == {
            "O > >": SourcePosition("O > >", 2, "a"),
            "P > >": SourcePosition("P > >", 9, "b"),
        }


def test_removed_messages_are_not_looked_for(bench: Any) -> None:
    store = bench.stream().store
    assert last_positions(store, {"O > >"}) == {}
    for number in range(5):
        store.append(b"s", block(f"O {number + 1} > > s a"), b"", 1)
    store.truncate_front(3)
    assert last_positions(store, {"O > >"})["O > >"].sequence == 5
    store.purge(None, 0, 0)
    assert last_positions(store, {"O > >"}) == {}


def test_descriptions(bench: Any) -> None:
    rules = [{"src": "a.*", "dest": "b.$1"}]
    stream = bench.stream(
        sources=[
            OriginConfig(name="O", filter_subject="a"),
            OriginConfig.model_validate(
                {
                    "name": "P",
                    "subject_transforms": rules,
                    "external": {"api": "x", "deliver": "y"},
                }
            ),
        ]
    )
    assert stream.sourcing.info(bench.now) == {}  # nothing until it is started
    stream.sourcing.follow_config(bench.now)
    first, second = stream.sourcing.info(bench.now)["sources"]
    assert list(first.items()) == [
        ("name", "O"),
        ("lag", 0),
        ("active", -1),
        ("filter_subject", "a"),
    ]
    assert list(second.items()) == [
        ("name", "P"),
        ("external", {"api": "x", "deliver": "y"}),
        ("lag", 0),
        ("active", -1),
        ("subject_transforms", rules),
    ]


def test_a_config_without_origins_ends_what_was(bench: Any) -> None:
    stream = bench.stream(subjects=[], mirror=OriginConfig(name="O"))
    stream.sourcing.follow_config(bench.now)
    assert list(stream.sourcing.info(bench.now)) == ["mirror"]
    bench.advance(10**9)
    assert any(sub.subject.startswith(b"$JS.M.") for sub in bench.sublist)
    stream.reconfigure(bench.config(), bench.now)
    assert stream.sourcing.info(bench.now) == {}
    assert not any(sub.subject.startswith(b"$JS.M.") for sub in bench.sublist)


def test_only_those_that_wait_for_a_stream_are_told_of_it(bench: Any) -> None:
    stream = bench.stream(sources=[OriginConfig(name="O")])
    stream.sourcing.follow_config(bench.now)
    stream.sourcing.origin_appeared("P", bench.now)
    stream.sourcing.origin_appeared("O", bench.now)
    requests = [subject for subject, _, _ in bench.sent()]
    assert requests == []
    bench.advance(3 * 10**8)
    assert [subject for subject, _, _ in bench.sent()] == [b"$JS.API.CONSUMER.CREATE.O"]


def test_an_end_leaves_no_subscription(bench: Any) -> None:
    stream = bench.stream(sources=[OriginConfig(name="O"), OriginConfig(name="P")])
    count = bench.sublist.count
    stream.sourcing.follow_config(bench.now)
    bench.advance(3 * 10**8)
    assert bench.sublist.count == count + 4  # two deliver subjects, two inboxes
    stream.sourcing.stop(for_good=False)
    assert bench.sublist.count == count
