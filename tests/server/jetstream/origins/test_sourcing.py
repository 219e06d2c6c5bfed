"""What a stream copies from: found again in its messages, followed when its config changes."""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.configs.stream_config import OriginConfig


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
