"""What belongs into a wheel and into a source distribution, and what does not."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path

SOURCES = (".pyx", ".pxd", ".c", ".h")
# What every source distribution has, and what that of the connector has besides.
ALWAYS = {"LICENSE", "README.md", "pyproject.toml", "setup.py", "PKG-INFO"}
BESIDES = {
    "jetstream_server": set[str](),
    "jetstream_spark": {
        ".github/workflows/ci.yml",
        "CHANGELOG.md",
        "Makefile",
        "docker/Dockerfile",
        "docs/index.md",
        "examples/flights.py",
        "monitoring/grafana-queries.json",
        "server/jetstream_console/__init__.py",
        "tests/server/test_server.py",
        "tests/spark/conftest.py",
    },
}


def is_pure(wheel: Path) -> bool:
    """Whether it is for any machine."""
    return wheel.name.endswith("-py3-none-any.whl")


def faults_of_wheel(wheel: Path) -> list[str]:
    """What is wrong with a wheel, by its files; nothing if it is as it should be."""
    package, version = wheel.name.split("-")[:2]
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        compiled = {name for name in names if name.endswith(".so")}
        with_symbols = [name for name in compiled if b".debug_info" in packed.read(name)]
        licences = [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
        told = packed.read(f"{package}-{version}.dist-info/METADATA").decode()
        init = packed.read(f"{package}/__init__.py").decode()
    faults = [f"{name}: a source of kernels" for name in names if name.endswith(SOURCES)]
    faults += [f"{name}: symbols for debuggers" for name in with_symbols]
    faults += [f"{name}: left over" for name in names if name.endswith((".pyc", ".orig"))]
    kernels = {name.rpartition("/")[0] for name in names if name.endswith("/pure.py")}
    found = {name.rpartition("/")[0] for name in compiled}
    expected = set() if is_pure(wheel) else kernels
    faults += [f"{kernel}: not compiled" for kernel in expected - found]
    faults += [f"{kernel}: compiled, for one machine" for kernel in found - expected]
    if not kernels:
        faults.append("it has no kernels")
    if not licences:
        faults.append("it has no licence")
    if f"{package}/py.typed" not in names:
        faults.append("its types are not said to be there")
    if f"\nVersion: {version}\n" not in told or f'__version__ = "{version}"' not in init:
        faults.append(f"its version is not {version} everywhere")
    return sorted(faults)


def faults_of_source(archive: Path) -> list[str]:
    """What is wrong with a source distribution, by its files."""
    package = archive.name.split("-")[0]
    with tarfile.open(archive) as packed:
        names = {member.partition("/")[2] for member in packed.getnames()}
    faults = [f"{name}: missing" for name in (ALWAYS | BESIDES[package]) - names]
    faults += [
        f"{name}: left over" for name in names if re.search(r"\.(so|pyc)$|^build/|/fast\.c$", name)
    ]
    kernels = {name.rpartition("/")[0] for name in names if name.endswith("/pure.py")}
    faults += [
        f"{kernel}: without its source" for kernel in kernels if f"{kernel}/fast.pyx" not in names
    ]
    if not any(kernel.startswith(f"{package}/kernels/") for kernel in kernels):
        faults.append("it has no kernels")
    return sorted(faults)
