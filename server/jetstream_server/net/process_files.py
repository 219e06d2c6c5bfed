"""Files that tell other programs about this process: its number, and where it can be reached."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path


@contextlib.contextmanager
def process_files(
    pid_file: str, ports_file_dir: str, urls: Mapping[str, list[str]]
) -> Iterator[None]:
    """Keep the pid file, which stays behind as the genuine server's does, and the ports file.

    Args:
        pid_file: empty for none.
        ports_file_dir: the folder of `nats-server_PID.ports`, empty for none.
        urls: by protocol, what the ports file says.

    Raises:
        OSError: a file cannot be written.
    """
    if pid_file:
        Path(pid_file).write_text(str(os.getpid()))
    ports: Path | None = None
    if ports_file_dir:
        ports = Path(ports_file_dir) / f"nats-server_{os.getpid()}.ports"
        ports.write_text(json.dumps(urls, separators=(",", ":")))
    try:
        yield
    finally:
        if ports is not None:
            ports.unlink(missing_ok=True)
