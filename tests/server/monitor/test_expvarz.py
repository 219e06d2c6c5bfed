"""What a process tells of itself."""

from __future__ import annotations

import sys

from jetstream_server.monitor.expvarz import expvarz, variables


def test_memory_and_the_program_without_its_arguments(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["server", "--pass", "secret"])
    view = expvarz()
    assert view["cmdline"] == ["server"]
    assert view["memstats"]["Alloc"] > 0 < view["memstats"]["Sys"]
    assert view["memstats"]["NumGC"] >= 0
    assert list(variables()) == ["cmdline", "memstats"]
