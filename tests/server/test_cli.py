"""The command: what it prints and how it ends, as the genuine one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from jetstream_server import cli


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
