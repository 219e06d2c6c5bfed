"""Counters that monitoring shows."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Traffic:
    """Messages and bytes of their headers and payloads, both ways, as seen from the server."""

    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0

    def subtract(self, other: Traffic) -> None:
        """Subtract another's counts from these."""
        self.in_msgs -= other.in_msgs
        self.in_bytes -= other.in_bytes
        self.out_msgs -= other.out_msgs
        self.out_bytes -= other.out_bytes

    def add(self, other: Traffic) -> None:
        """Add another's counts to these."""
        self.in_msgs += other.in_msgs
        self.in_bytes += other.in_bytes
        self.out_msgs += other.out_msgs
        self.out_bytes += other.out_bytes


@dataclass(slots=True)
class NodeStats:
    """Counters of the whole server.

    Attributes:
        traffic: of connections that are closed.
    """

    traffic: Traffic = field(default_factory=Traffic)
    total_connections: int = 0
    slow_consumers: int = 0
    stale_connections: int = 0
    http_requests: dict[str, int] = field(default_factory=dict)  # by page of monitoring
