"""Subscriptions follow what is wanted."""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.streams.interest import Interest


def test_only_differences_change(bench: Any) -> None:
    interest = Interest(bench.sublist)
    first, second = bench.client, bench.client
    interest.change({(b"a", b""): first, (b"b", b""): first})
    kept = bench.sublist.match_one(b"b")
    assert kept is not None
    interest.change({(b"b", b""): first, (b"b", b"q"): second, (b"c", b""): second})
    assert not bench.sublist.has_interest(b"a")
    match = bench.sublist.match(b"b")
    assert match.plain == [kept]
    assert [each.queue for each in match.queues[0]] == [b"q"]
    interest.change({})
    assert not any(bench.sublist.has_interest(each) for each in (b"a", b"b", b"c"))
