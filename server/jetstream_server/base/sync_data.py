"""Having what was written to a file on the device."""

from __future__ import annotations

import os


def sync_data(handle: int) -> None:
    """Flush a file's bytes, and its size if that changed, to the device.

    Raises:
        OSError: it failed; what is on the device is unknown.
    """
    # macOS has no fdatasync.
    if hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    else:  # pragma: no cover - not Linux
        os.fsync(handle)
