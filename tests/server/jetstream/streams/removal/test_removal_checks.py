"""Requests that may not remove anything."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.streams.removal.removal_checks import check_delete, check_purge


def refusal(check: Any, *arguments: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        check(*arguments)
    return caught.value.err_code, caught.value.description


def test_purges(bench: Any) -> None:
    store = bench.stream().store
    check_purge(bench.config(), store)
    assert refusal(check_purge, bench.config(sealed=True), store)[0] == 10109
    denied = refusal(check_purge, bench.config(deny_purge=True), store)
    assert denied == (10110, "stream purge not permitted")


def test_deletes(bench: Any) -> None:
    store = bench.stream(first_seq=5).store
    store.append(b"s.a", b"", b"", 1)
    check_delete(bench.config(), store, 99)  # a memory store says it differently, elsewhere
    assert refusal(check_delete, bench.config(sealed=True), store, 5)[0] == 10109
    file = bench.config(storage="file")
    check_delete(file, store, 5)
    assert refusal(check_delete, file, store, 6) == (10057, "stream store EOF")
    assert refusal(check_delete, file, store, 4) == (10057, "no message found")
    assert refusal(check_delete, bench.config(deny_delete=True), store, 5) == (
        10057,
        "message delete not permitted",
    )
