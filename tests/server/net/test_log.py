"""Log lines in the form that tools look for."""

from __future__ import annotations

import re
import sys

import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.net.log import ServerLog


def test_form(capsys):
    ServerLog().write("INF", "Server is ready")
    assert re.fullmatch(
        r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[INF\] Server is ready\n",
        capsys.readouterr().err,
    )


def test_without_time(capsys):
    ServerLog(logtime=False).write("ERR", "x")
    assert re.fullmatch(r"\[\d+\] \[ERR\] x\n", capsys.readouterr().err)


def test_debug_and_trace_are_asked_for(capsys):
    ServerLog().write("DBG", "no")
    ServerLog(debug=True).write("TRC", "no")
    ServerLog(debug=True).write("DBG", "yes")
    assert capsys.readouterr().err.endswith("[DBG] yes\n")


def test_a_file_is_appended_to(tmp_path):
    path = tmp_path / "a.log"
    ServerLog(path=str(path)).write("INF", "one")
    ServerLog(path=str(path)).write("INF", "two")
    assert [line.split("] ")[-1] for line in path.read_text().splitlines()] == ["one", "two"]


def test_a_file_that_cannot_be_written_is_a_mistake_of_the_operator(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written"):
        ServerLog(path=str(tmp_path / "no" / "a.log"))


def test_a_reader_that_goes_away_does_not_take_the_server_with_it(monkeypatch):
    class Broken:
        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Broken())
    ServerLog().write("INF", "into the void")
