"""Limits of accounts and server."""

from __future__ import annotations

from jetstream_server.jetstream.configs.account_limits import AccountLimits, ServerLimits


def test_limits_by_kind_of_storage() -> None:
    limits = AccountLimits(
        max_memory=1, max_storage=2, memory_max_stream_bytes=3, storage_max_stream_bytes=4
    )
    assert (limits.max_usage(memory=True), limits.max_usage(memory=False)) == (1, 2)
    assert (limits.max_stream_bytes(memory=True), limits.max_stream_bytes(memory=False)) == (3, 4)
    server = ServerLimits(max_memory=5, max_storage=6)
    assert (server.max_usage(memory=True), server.max_usage(memory=False)) == (5, 6)


def test_wire_order() -> None:
    assert list(AccountLimits().to_wire().items()) == [
        ("max_memory", -1),
        ("max_storage", -1),
        ("max_streams", -1),
        ("max_consumers", -1),
        ("max_ack_pending", -1),
        ("memory_max_stream_bytes", -1),
        ("storage_max_stream_bytes", -1),
        ("max_bytes_required", False),
    ]
