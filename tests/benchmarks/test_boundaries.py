"""The copy without boundaries is the server otherwise, and is what is measured."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import jetstream_server
import pytest

from benchmarks import __main__ as table
from benchmarks import boundaries
from benchmarks.boundaries import ROWS, main, unbounded, without_boundaries
from benchmarks.servers import running

GUARDED = """
def turn(self, now):
    try:
        self.work(now)
    except Exception as error:
        self._containment.contain(error, now)
    else:
        self.done()
    try:
        self.read()
    except OSError:
        self.close()
    except Exception as error:
        incident = self.containment.contain(error, now)
    try:
        self.write()
    except Exception as error:
        self._contain(error)
    finally:
        self.end()
"""
BARE = """
def turn(self, now):
    self.work(now)
    self.done()
    try:
        self.read()
    except OSError:
        self.close()
    try:
        self.write()
    finally:
        self.end()
"""


def test_only_boundaries_are_taken_out():
    found, count = without_boundaries(GUARDED)
    assert count == 3
    assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(BARE))
    assert without_boundaries(BARE) == (BARE, 0)


def test_the_copy_is_what_its_command_runs_and_serves():
    with unbounded() as (kind, count):
        # As many as the sources have handlers that call it.
        package = Path(jetstream_server.__file__).parent
        handlers = [
            node
            for file in package.rglob("*.py")
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.ExceptHandler) and "contain(" in ast.unparse(node)
        ]
        assert count == len(handlers) > 30
        asked = [sys.executable, "-c", "import jetstream_server; print(jetstream_server.__file__)"]
        environment = {**os.environ, **kind.environment}
        said = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
        copy = Path(said.stdout.strip()).parent
        assert copy != package
        left = [file for file in copy.rglob("*.py") if "except Exception" in file.read_text()]
        assert all(not without_boundaries(file.read_text())[1] for file in left)
        with running(kind) as target:
            assert target.port


def test_nothing_to_take_out_is_no_comparison(monkeypatch, tmp_path):
    (tmp_path / "jetstream_server").mkdir()
    (tmp_path / "jetstream_server" / "__init__.py").write_text("")
    monkeypatch.setattr(
        boundaries.jetstream_server, "__file__", str(tmp_path / "jetstream_server" / "__init__.py")
    )
    with (
        pytest.raises(boundaries.NoBoundaryError, match=r"no handler in .* calls contain"),
        unbounded(),
    ):
        pass


def test_each_row_is_one_of_the_table_and_is_measured(capsys, monkeypatch):
    names = {case.name for bench in table.all_benches() for case in bench.cases}
    assert names.issuperset(ROWS)
    monkeypatch.setattr(boundaries, "ROWS", ("request-reply 128 B",))
    assert main(["--rounds", "1", "--seconds", "0.1"]) == 0
    *_, row = capsys.readouterr().out.splitlines()
    name, without, with_, ratio = [each.strip() for each in row.split("|")[1:5]]
    assert name == "request-reply 128 B"
    assert without.endswith("µs") and with_.endswith("µs") and float(ratio.split()[0]) > 0
