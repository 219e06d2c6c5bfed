"""What a stream copies from: found again in its messages, followed when its config changes."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.core.containment import Containment
from jetstream_server.jetstream.configs.stream_config import OriginConfig
from jetstream_server.jetstream.origins import sourcing
from jetstream_server.jetstream.origins.feed import Feed


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


@pytest.fixture
def many(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a stream of seven sources, of which three are made at a time."""
    monkeypatch.setattr(sourcing, "_MADE_AT_ONCE", 3)
    return bench.stream(sources=[OriginConfig(name=f"O{number}") for number in range(7)])


def names(stream: Any, now: int) -> list[str]:
    return [each["name"] for each in stream.sourcing.info(now).get("sources", ())]


def test_of_very_many_sources_some_begin_at_a_time(bench: Any, many: Any) -> None:
    """A thousand took 25 ms."""
    many.sourcing.follow_config(bench.now, at_once=False)
    counts = [len(names(many, bench.now))]
    while not many.sourcing.follow_more():
        counts.append(len(names(many, bench.now)))
    assert counts == [3, 6]
    assert names(many, bench.now) == [f"O{number}" for number in range(7)]
    assert many.sourcing.follow_more(), "there are no more"
    bench.advance(3 * 10**8)
    asked = sorted(subject for subject, _, _ in bench.sent())
    assert asked == [b"$JS.API.CONSUMER.CREATE.O%d" % number for number in range(7)]


def test_those_that_begin_later_ask_after_the_others(
    bench: Any, many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[int] = []
    start = Feed.start

    def noted(feed: Feed, now: int, later_ns: int = 0) -> None:
        later.append(later_ns)
        start(feed, now, later_ns)

    monkeypatch.setattr(Feed, "start", noted)
    monkeypatch.setattr(sourcing, "_AT_ONCE", 2)
    many.sourcing.follow_config(bench.now, at_once=False)
    while not many.sourcing.follow_more():
        pass
    assert [each // MILLISECOND for each in later] == [0, 0, 0, 2, 4, 6, 8]


def test_those_that_begin_later_are_not_looked_for(
    bench: Any, many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the first ones had brought by then 100,000 messages took half a second."""
    many.sourcing.follow_config(bench.now, at_once=False)
    for _ in range(5):
        many.store.append(b"s.a", b"NATS/1.0\r\nNats-Stream-Source: O0 1 > > s.a\r\n\r\n", b"", 1)
    looked_at = []
    window = many.store.window
    monkeypatch.setattr(
        many.store, "window", lambda *given: (looked_at.append(given), window(*given))[1]
    )
    while not many.sourcing.follow_more():
        pass
    assert names(many, bench.now) == [f"O{number}" for number in range(7)]
    assert not looked_at
    bench.advance(3 * 10**8)
    asked = {subject for subject, _, _ in bench.sent()}
    assert asked >= {b"$JS.API.CONSUMER.CREATE.O%d" % number for number in range(7)}


def test_where_there_are_messages_all_begin_at_once(bench: Any, many: Any) -> None:
    """Some of them may be of sources that have yet to begin."""
    bench.publish(many, b"s.a")
    many.sourcing.follow_config(bench.now, at_once=False)
    assert len(names(many, bench.now)) == 7


def test_a_change_or_an_end_in_between_is_what_counts(bench: Any, many: Any) -> None:
    many.sourcing.follow_config(bench.now, at_once=False)
    fewer = [OriginConfig(name=name) for name in ("O6", "O0")]
    many.reconfigure(many.config.changed(sources=fewer), bench.now)
    assert many.sourcing.follow_more()
    assert names(many, bench.now) == ["O6", "O0"]
    more = [OriginConfig(name=f"P{number}") for number in range(7)]
    many.contents.follow(many.config.changed(sources=more))
    many.sourcing.follow_config(bench.now, at_once=False)
    many.sourcing.stop(for_good=True)
    assert many.sourcing.follow_more()
    assert names(many, bench.now) == []


def test_those_that_come_later_wait_for_those_that_did_not_begin(
    bench: Any, many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips = [True, False]
    positions = sourcing.Sourcing._positions

    def tripping(*given: Any) -> Any:
        if trips.pop(0):
            raise RuntimeError("a bug")
        return positions(*given)

    monkeypatch.setattr(sourcing.Sourcing, "_positions", tripping)
    bench.context.containment = Containment(lambda level, text: None)
    many.sourcing.follow_config(bench.now, at_once=False)
    while not many.sourcing.follow_more():
        pass
    assert trips == [False]
    bench.advance(2 * SECOND)
    assert trips == []
    bench.advance(SECOND)
    asked = {subject for subject, _, _ in bench.sent()}
    assert asked >= {b"$JS.API.CONSUMER.CREATE.O%d" % number for number in range(7)}
