"""Refused publishes: who is told what, and when."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.storing.pub_ack import PubAck
from jetstream_server.jetstream.streams.storing.publish_answers import PublishAnswers
from jetstream_server.jetstream.streams.storing.refusals import Refusals
from jetstream_server.protocol.ops import PubRun


@pytest.fixture
def contents(bench: Any) -> Contents:
    contents: Contents = bench.stream(storage="file").contents
    return contents


@pytest.fixture
def refusals(bench: Any, contents: Contents) -> Refusals:
    return Refusals(contents, PubAck("S", ""), PublishAnswers(contents.config, bench.output))


def codes(sends: list[Any]) -> list[int]:
    return [json.loads(send.run.payload(0))["error"]["err_code"] for send in sends]


def test_a_refusal_waits_for_what_came_before(bench: Any, refusals: Refusals) -> None:
    refusals.send(b"r", errors.STREAM_SEALED())
    assert codes(bench.output.sends_after_flush) == [10109]
    assert not bench.output.sends


def test_nobody_is_told_without_a_reply_or_by_a_silent_stream(
    bench: Any, refusals: Refusals, contents: Contents
) -> None:
    refusals.send(b"", errors.STREAM_SEALED())
    contents.follow(bench.config(storage="file", no_ack=True))
    refusals.send(b"r", errors.STREAM_SEALED())
    assert not bench.output.sends_after_flush


def test_a_failing_disk_is_logged_once_and_waits_for_no_flush(
    bench: Any, refusals: Refusals, contents: Contents
) -> None:
    run = PubRun.of((b"s.a", b"r%d" % n, b"", b"") for n in range(3))
    refusals.send_all(run, 0, 3, StoreError("no space left"))
    assert codes(bench.output.sends) == [10077] * 3
    assert not bench.output.sends_after_flush
    assert len(bench.logged) == 1
    assert "publish not stored: no space left" in bench.logged[0][1]
    contents.after_storing(1, 1, bench.now)
    assert contents.not_stored(StoreError("again")).err_code == 10077
    assert len(bench.logged) == 2
