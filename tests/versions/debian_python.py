"""An interpreter from Debian's unstable packages, in a folder of its own.

The machine's packages are not touched: lists, packages and files all stay below one folder. The
interpreter is newer than the machine's C library, so it gets the one that was packed with it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCES = """Types: deb
URIs: http://deb.debian.org/debian
Suites: sid
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
TRIPLET = "x86_64-linux-gnu"
LIBRARIES = f"usr/lib/{TRIPLET}"


def is_possible() -> bool:
    """Whether this machine has what it takes."""
    return bool(shutil.which("apt-get") and shutil.which("dpkg-deb"))


def install(version: str, folder: Path, patchelf: Path) -> Path:
    """Unpack a version, such as 3.14, below a folder; return its interpreter.

    Raises:
        CalledProcessError: Debian has no such version, or cannot be reached.
    """
    python = folder / "usr" / "bin" / f"python{version}"
    is_complete = folder / "complete"
    if is_complete.exists():
        return python
    work = folder.resolve() / "apt"
    for name in ("parts", "lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True, exist_ok=True)
    (work / "parts" / "sid.sources").write_text(SOURCES)
    settings = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": f"{work}/parts",
        "Dir::State::lists": f"{work}/lists",
        "Dir::State::status": "/dev/null",  # as if nothing were installed: all it needs is told
        "Dir::Cache": str(work),
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", *(f"-o{key}={value}" for key, value in settings.items())]
    subprocess.run([*apt, "update"], check=True, capture_output=True)
    wanted = [*apt, "install", "--simulate", "--no-install-recommends", f"python{version}-dev"]
    told = subprocess.run(wanted, check=True, capture_output=True, text=True).stdout
    packages = [line.split()[1] for line in told.splitlines() if line.startswith("Inst ")]
    subprocess.run([*apt, "download", *packages], check=True, capture_output=True, cwd=work)
    for package in work.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
    _take_own_libraries(python, folder.resolve() / LIBRARIES, patchelf)
    _reach_own_headers(folder.resolve() / "usr" / "include", f"python{version}")
    shutil.rmtree(work)
    is_complete.touch()
    return python


def _take_own_libraries(python: Path, libraries: Path, patchelf: Path) -> None:
    loader = libraries / "ld-linux-x86-64.so.2"
    command = [str(patchelf), "--set-interpreter", str(loader)]
    command += ["--force-rpath", "--set-rpath", str(libraries), str(python)]
    subprocess.run(command, check=True)


def _reach_own_headers(include: Path, name: str) -> None:
    """Make `<x86_64-linux-gnu/python3.14/pyconfig.h>` known without the other headers there."""
    part = include / name / TRIPLET
    part.mkdir()
    (part / name).symlink_to(include / TRIPLET / name)
