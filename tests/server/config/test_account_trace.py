"""`msg_trace` of an account; its errors are among the vectors of `test_load.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from jetstream_server.config.load import load


@pytest.mark.parametrize(
    ("text", "dest", "percent"),
    [
        ("msg_trace: a.b", "a.b", 100),
        ("trace_dest: a", "a", 100),
        ("msg_trace: { dest: a, sampling: 5 }", "a", 5),
        ('msg_trace: { DEST: a, sampling: "7%" }', "a", 7),
        ("", "", 100),
    ],
)
def test_what_is_read(tmp_path: Path, text: str, dest: str, percent: int):
    path = tmp_path / "n.conf"
    path.write_text(f"accounts {{ A {{ {text} }} }}")
    [account] = load(path).accounts
    assert (account.trace_dest, account.trace_percent) == (dest, percent)
