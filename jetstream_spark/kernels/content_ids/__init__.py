"""Digests of rows, how often each was seen, and ids made from both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_spark.kernels.content_ids.pure import DIGEST_BYTES, base64url
from jetstream_spark.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_spark.kernels.content_ids.pure import Occurrences, content_digests, id_column

__all__ = ["DIGEST_BYTES", "TWIN", "Occurrences", "base64url", "content_digests", "id_column"]

TWIN = adopt(__name__, globals())
