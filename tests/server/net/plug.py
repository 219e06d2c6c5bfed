"""What a connection asks of its transport, without a socket."""

from __future__ import annotations


class Plug:
    """A transport that takes everything.

    Attributes:
        written: all of it.
        held_bytes: how much of it has not left.
        is_paused: nothing is to be read.
    """

    def __init__(self) -> None:
        self.written = b""
        self.held_bytes = 0
        self.is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.held_bytes

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return ("127.0.0.1", 1)

    def close(self) -> None: ...
