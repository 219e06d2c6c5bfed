"""Names of accounts, streams and consumers as names of folders.

Most stay as they are; characters that mean something to a file system are written `%xx`.
"""

from __future__ import annotations

from jetstream_server.base.errors import StoreError

NAME_BYTES_MAX = 255  # of one name, on common file systems


def to_name(name: str) -> str:
    """Return the folder name of a stream, consumer or account; `from_name` is the reverse.

    Raises:
        StoreError: too long for a folder.
    """
    safe = "".join(f"%{ord(c):02x}" if c in "%/\\" or c < " " else c for c in name)
    if safe.startswith("."):
        safe = "%2e" + safe[1:]
    if len(safe.encode()) > NAME_BYTES_MAX:
        raise StoreError(f"the name takes more than {NAME_BYTES_MAX} bytes: {name[:40]}...")
    return safe


def from_name(folder: str) -> str:
    """Return the name that a folder stands for."""
    head, *rest = folder.split("%")
    return head + "".join(chr(int(part[:2], 16)) + part[2:] for part in rest)
