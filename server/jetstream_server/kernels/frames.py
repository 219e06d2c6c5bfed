"""PUB and HPUB frames: find them in a chunk, cut them by target, write them out again."""

from __future__ import annotations

from jetstream_server.kernels.frames_pure import (
    encode_messages,
    first_special,
    scan_publishes,
    segment,
)

__all__ = ["encode_messages", "first_special", "scan_publishes", "segment"]
