"""Publish acks out, consumer acks in."""

from __future__ import annotations

from jetstream_server.kernels.acks_pure import encode_pub_acks, reply_run, take_plain_acks

__all__ = ["encode_pub_acks", "reply_run", "take_plain_acks"]
