"""The allocator of the C library, as far as it is told what to do."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from jetstream_server.net import allocator
from jetstream_server.net.allocator import HELD_BYTES, GlibcAllocator


def test_nothing_is_given_back_in_the_middle_of_something(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Library:
        def mallopt(self, option: int, value: int) -> int:
            asked.append((option, value))
            return 1

    monkeypatch.setattr(allocator, "_c_library", Library)
    GlibcAllocator().keep()
    assert asked == [(-3, 32 << 20), (-1, -1)]
    monkeypatch.setattr(allocator, "_c_library", object)  # another one
    GlibcAllocator().keep()


def test_the_library_does_no_harm_wherever_it_is() -> None:
    glibc = GlibcAllocator()
    kept = [bytes(5000) for _ in range(4000)]
    before = glibc.free_bytes()
    kept = kept[::4]
    freed = glibc.free_bytes() - before
    assert freed > 10_000_000 or before == 0 == glibc.free_bytes()
    glibc.trim()


def test_what_is_held_is_not_free_until_it_is_let_go_of() -> None:
    """In a process of its own, as what the allocator is told holds until the process ends."""
    command = [sys.executable, __file__]
    subprocess.run(command, check=True, timeout=60)


def _hold_and_let_go() -> None:
    glibc = GlibcAllocator()
    glibc.keep()
    kept = [b"x" * (HELD_BYTES + number) for number in range(60)]
    kept.clear()
    free = glibc.free_bytes()
    places = glibc.hold(20)
    assert len(set(places)) == 20
    assert glibc.free_bytes() < free - 19 * HELD_BYTES
    more = glibc.hold(1 << 20)
    assert 30 <= len(more) < 1 << 20, "no more than was free"
    before = _resident_bytes()
    glibc.trim()
    assert _resident_bytes() > before - 4 * HELD_BYTES
    glibc.let_go(places + more)
    assert abs(glibc.free_bytes() - free) < HELD_BYTES
    glibc.trim()
    assert _resident_bytes() < before - 40 * HELD_BYTES


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    _hold_and_let_go()
