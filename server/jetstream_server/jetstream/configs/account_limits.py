"""What an account and the whole server allow; -1 is no limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What the genuine server has since 2.14 where its configuration does not say (probed, 2.15.1).
DEFAULT_MAX_CONSUMERS = 1000


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """Limits of one account, as `$JS.API.INFO` shows them.

    Attributes:
        max_memory: bytes in memory streams.
        max_storage: bytes in file streams.
        max_streams: number of streams; 0 is no limit either.
        max_consumers: number of consumers on each stream; 0 is no limit either.
        max_ack_pending: upper bound of a consumer's max_ack_pending.
        memory_max_stream_bytes: upper bound of max_bytes of a memory stream.
        storage_max_stream_bytes: upper bound of max_bytes of a file stream.
        max_bytes_required: whether each stream must set max_bytes.
        tiers: instead of all others, limits of the streams with so many replicas, by `R1`, `R3`.
    """

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False
    tiers: Mapping[str, AccountLimits] = field(default_factory=dict)

    def tier(self, replicas: int) -> AccountLimits | None:
        """Return the limits of streams with so many replicas, None where there can be none."""
        return self.tiers.get(f"R{replicas or 1}") if self.tiers else self

    def to_wire(self) -> dict[str, Any]:
        """Return the `limits` object of the account info."""
        return {
            "max_memory": self.max_memory,
            "max_storage": self.max_storage,
            "max_streams": self.max_streams,
            "max_consumers": self.max_consumers,
            "max_ack_pending": self.max_ack_pending,
            "memory_max_stream_bytes": self.memory_max_stream_bytes,
            "storage_max_stream_bytes": self.storage_max_stream_bytes,
            "max_bytes_required": self.max_bytes_required,
        }

    def max_usage(self, *, memory: bool) -> int:
        """Return how many bytes of one kind of storage the account may use."""
        return self.max_memory if memory else self.max_storage

    def max_stream_bytes(self, *, memory: bool) -> int:
        """Return the upper bound of max_bytes for one kind of storage."""
        return self.memory_max_stream_bytes if memory else self.storage_max_stream_bytes


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of the server, the same for every account (`jetstream { limits { .. } }`).

    Attributes:
        max_memory: bytes in memory streams of all accounts.
        max_storage: bytes in file streams of all accounts.
        duplicate_window_ns: upper bound of a stream's duplicate_window.
        max_ack_pending: upper bound of a consumer's max_ack_pending.
        max_request_batch: upper bound of a pull consumer's max_batch.
        default_max_consumers: consumers on a stream if neither the stream nor its account sets a
            limit.
    """

    max_memory: int = -1
    max_storage: int = -1
    duplicate_window_ns: int = -1
    max_ack_pending: int = -1
    max_request_batch: int = -1
    default_max_consumers: int = DEFAULT_MAX_CONSUMERS

    def max_usage(self, *, memory: bool) -> int:
        """Return how many bytes of one kind of storage the server may use."""
        return self.max_memory if memory else self.max_storage
