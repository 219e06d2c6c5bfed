"""Where an interpreter of a certain version is on this machine, or can be had."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.versions import debian_python

PYENV = Path.home() / ".pyenv" / "versions"


class NoInterpreterError(Exception):
    """There is no such interpreter, and none can be had here."""


def find(version: str, folder: Path) -> Path:
    """Return an interpreter of a version, such as 3.13; one that has to be fetched is put below.

    Raises:
        NoInterpreterError: nobody has it.
    """
    for python in _candidates(version):
        if _is(python, version):
            return python
    if debian_python.is_possible():
        try:
            return debian_python.install(version, folder / f"python{version}", tool("patchelf"))
        except subprocess.CalledProcessError as error:
            reason = f", and Debian's packages cannot be had: {error}"
    else:
        reason = ""
    raise NoInterpreterError(f"no Python {version} on the PATH or in {PYENV}{reason}")


def tool(name: str) -> Path:
    """A program that was installed beside this interpreter."""
    return Path(sys.executable).parent / name


def _candidates(version: str) -> Iterator[Path]:
    yield Path(sys.executable)
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    yield from PYENV.glob(f"{version}.*/bin/python{version}")


def _is(python: Path, version: str) -> bool:
    """Whether it runs (a shim may not) and is of the version."""
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    told = subprocess.run([str(python), "-c", question], capture_output=True, text=True)
    return told.stdout.strip() == version
