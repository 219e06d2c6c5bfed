"""The command: what it prints and how it ends, as the genuine one."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
from typing import Any

import pytest
from jetstream_server import cli
from jetstream_server.config.options import ServerOptions


def test_version(capsys):
    assert cli.main(["-v"]) == 0
    out = capsys.readouterr().out
    assert re.match(r"nats-server: v\d+\.\d+\.\d+", out)
    assert "kernels: compiled" in out or "kernels: pure" in out


def test_help_and_a_flag_that_does_not_exist(capsys):
    assert cli.main(["--help"]) == 0
    assert "--store_dir" in capsys.readouterr().out
    assert cli.main(["-nope"]) == 0
    said = capsys.readouterr()
    assert "Usage" in said.out
    assert "flag provided but not defined: -nope" in said.err


@pytest.mark.parametrize(
    ("text", "said"),
    [("port: [", "Parse error"), ("nope: 1", "unknown field"), ("port: abc", "int64")],
)
def test_a_wrong_configuration_file_ends_with_1(capsys, tmp_path, text, said):
    config = tmp_path / "a.conf"
    config.write_text(text + "\n")
    assert cli.main(["-c", str(config)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("nats-server: ") and said in error


def test_a_good_file_can_be_checked(capsys, tmp_path):
    config = tmp_path / "a.conf"
    config.write_text("port: 4222\n")
    assert cli.main(["-t", "-c", str(config)]) == 0
    assert "is valid" in capsys.readouterr().err


def test_it_does_not_run_without_its_assertions():
    done = subprocess.run(
        [sys.executable, "-O", "-m", "jetstream_server", "-v"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "-O" in done.stderr


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("nope=1", 'unknown signal "nope", it is one of stop, quit, term, reload, reopen, ldm'),
        ("ldm", "--signal needs a process id or its file, as in ldm=4711"),
        ("ldm=/no/such/file", "No such file"),
    ],
)
def test_signals_that_cannot_be_sent(capsys, text, wrong):
    assert cli.main(["--signal", text]) == 1
    assert wrong in capsys.readouterr().err


def test_a_signal_is_sent(monkeypatch, tmp_path):
    sent = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    (tmp_path / "pid").write_text("4712")
    assert cli.main(["-sl", "reload=4711"]) == 0
    assert cli.main(["--signal", f"ldm={tmp_path / 'pid'}"]) == 0
    assert sent == [(4711, signal.SIGHUP), (4712, signal.SIGUSR2)]


_INTERRUPTED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "jetstream_server.cli":
            os.kill(os.getpid(), number)

number = signal.Signals[sys.argv[1]]
if sys.argv[2] == "ignored":
    signal.signal(number, signal.SIG_IGN)
sys.meta_path.insert(0, Finder())
from jetstream_server.__main__ import main
sys.exit(main())
"""


# To the first process of a container, a signal is ignored until it says otherwise.
@pytest.mark.parametrize("at_first", ["followed", "ignored"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_during_the_imports_ends_without_a_word(number, at_first):
    command = [sys.executable, "-c", _INTERRUPTED, number.name, at_first]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("name", ["", "jetstream"])
def test_a_store_that_is_a_file_is_named_as_the_genuine_server_does(tmp_path, name):
    store = tmp_path / "store"
    if name:
        store.mkdir()
    (store / name).write_bytes(b"")
    command = [sys.executable, "-m", "jetstream_server", "-js", "-sd", str(store), "-p", "-1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "[FTL] Can't start JetStream: storage directory is not a directory" in done.stderr


def test_no_garbage_collection_but_the_rarest_looks_at_very_much() -> None:
    new, of_new, of_older = cli._GC_THRESHOLDS
    assert new * (of_new + 1) <= 20_000
    assert new * of_new * of_older >= 50_000_000


def test_a_thread_that_wants_the_interpreter_has_it_soon(monkeypatch: Any) -> None:
    """With Python's 5 ms a flush of a busy server took a tenth of a second or more, of which the
    disk took one thousandth."""
    before, within = sys.getswitchinterval(), list[float]()

    def run(server: object) -> int:
        within.append(sys.getswitchinterval())
        return 0

    monkeypatch.setattr(cli, "_run", run)
    monkeypatch.setattr(cli, "Server", lambda *given: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *given: None)
    try:
        assert cli.serve(ServerOptions()) == 0
    finally:
        sys.setswitchinterval(before)
    assert within == [pytest.approx(0.0005)]
