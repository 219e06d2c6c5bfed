"""Log lines in the form that tools look for."""

from __future__ import annotations

import re
import sys

import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import ServerOptions
from jetstream_server.net.log import LogSettings, ServerLog


def test_form(capsys):
    ServerLog().write("INF", "Server is ready")
    assert re.fullmatch(
        r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[INF\] Server is ready\n",
        capsys.readouterr().err,
    )


def test_without_time(capsys):
    ServerLog(LogSettings(logtime=False)).write("ERR", "x")
    assert re.fullmatch(r"\[\d+\] \[ERR\] x\n", capsys.readouterr().err)


def test_debug_and_trace_are_asked_for(capsys):
    ServerLog().write("DBG", "no")
    ServerLog(LogSettings(debug=True)).write("TRC", "no")
    ServerLog(LogSettings(debug=True)).write("DBG", "yes")
    assert capsys.readouterr().err.endswith("[DBG] yes\n")


def test_a_file_is_appended_to(tmp_path):
    path = tmp_path / "a.log"
    ServerLog(LogSettings(path=str(path))).write("INF", "one")
    ServerLog(LogSettings(path=str(path))).write("INF", "two")
    assert [line.split("] ")[-1] for line in path.read_text().splitlines()] == ["one", "two"]


def test_a_file_that_cannot_be_written_is_a_mistake_of_the_operator(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written"):
        ServerLog(LogSettings(path=str(tmp_path / "no" / "a.log")))


def test_a_reader_that_goes_away_does_not_take_the_server_with_it(monkeypatch):
    class Broken:
        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Broken())
    ServerLog().write("INF", "into the void")


def test_other_settings_while_it_runs(tmp_path, capsys):
    log = ServerLog()
    log.write("DBG", "no")
    log.follow(LogSettings(debug=True, path=str(tmp_path / "a.log"), logtime=False))
    log.write("DBG", "yes")
    assert (tmp_path / "a.log").read_text().endswith("[DBG] yes\n")
    with pytest.raises(ConfigError, match="cannot be written"):
        log.follow(LogSettings(path=str(tmp_path / "no" / "a.log")))
    log.write("DBG", "still here")
    log.follow(LogSettings(utc=True))
    log.write("INF", "to stderr again")
    assert (tmp_path / "a.log").read_text().endswith("[DBG] still here\n")
    assert capsys.readouterr().err.endswith("to stderr again\n")


def test_a_file_that_is_put_aside_says_so(tmp_path):
    path = tmp_path / "a.log"
    log = ServerLog(LogSettings(path=str(path), size_max=500, logtime=False))
    log.write("INF", "x" * 500)
    (backup,) = [each for each in tmp_path.iterdir() if each != path]
    assert path.read_text().endswith(f'[INF] Rotated log, backup saved as "{backup}"\n')
    assert "x" * 500 in backup.read_text()


def test_settings_of_options():
    options = ServerOptions(is_debugging=True, is_logging_utc=True, log_file="a", log_size_limit=5)
    settings = LogSettings.of(options)
    assert (settings.debug, settings.trace, settings.utc) == (True, False, True)
    assert settings.file == ("a", 5, 0)


def test_a_file_that_was_moved_away(tmp_path):
    path, old = tmp_path / "a.log", tmp_path / "old.log"
    log = ServerLog(LogSettings(path=str(path), logtime=False))
    log.write("INF", "one")
    path.rename(old)
    log.write("INF", "two")
    log.reopen()
    assert path.read_text().endswith("[INF] File log re-opened\n")
    assert old.read_text().endswith("[INF] two\n")
    ServerLog().reopen()  # stderr stays what it is
