"""What a wheel and a source distribution hold; `make wheels` builds and tries all of them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests import manifests, wheels
from tests.wheel_contents import faults_of_source, faults_of_wheel

ROOT = Path(__file__).parents[1]
COMPILED = "jetstream_server-1.2-cp311-cp311-manylinux_2_17_x86_64.whl"
PURE = "jetstream_server-1.2-py3-none-any.whl"
GOOD = {
    "jetstream_server/__init__.py": b'\n__version__ = "1.2"\n',
    "jetstream_server/py.typed": b"",
    "jetstream_server/kernels/acks/pure.py": b"",
    "jetstream_server/kernels/acks/fast.cpython-311-x86_64-linux-gnu.so": b"\x7fELF",
    "jetstream_server-1.2.dist-info/METADATA": b"Name: jetstream-server\nVersion: 1.2\n",
    "jetstream_server-1.2.dist-info/licenses/LICENSE": b"",
}
KERNEL = next(name for name in GOOD if name.endswith(".so"))


def packed(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return folder / name


def without(*names: str) -> dict[str, bytes]:
    return {path: content for path, content in GOOD.items() if path not in names}


def test_a_good_wheel_has_no_fault(tmp_path):
    assert faults_of_wheel(packed(tmp_path, COMPILED, GOOD)) == []
    assert faults_of_wheel(packed(tmp_path, PURE, without(KERNEL))) == []


@pytest.mark.parametrize(
    ("name", "files", "fault"),
    [
        (COMPILED, GOOD | {"jetstream_server/kernels/acks/fast.pyx": b""}, "a source of kernels"),
        (COMPILED, GOOD | {KERNEL: b"\x7fELF.debug_info"}, "symbols for debuggers"),
        (COMPILED, without(KERNEL), "acks: not compiled"),
        (PURE, GOOD, "acks: compiled, for one machine"),
        (COMPILED, GOOD | {"jetstream_server/kernels/x/pure.py": b""}, "x: not compiled"),
        (COMPILED, without("jetstream_server/py.typed"), "its types"),
        (COMPILED, without("jetstream_server-1.2.dist-info/licenses/LICENSE"), "no licence"),
        (COMPILED, GOOD | {"jetstream_server/__init__.py": b"x"}, "its version is not 1.2"),
        (COMPILED, GOOD | {"jetstream_server/a.pyc": b""}, "left over"),
        (PURE, without(KERNEL, "jetstream_server/kernels/acks/pure.py"), "no kernels"),
    ],
)
def test_a_fault_of_a_wheel_is_found(tmp_path, name, files, fault):
    [found] = faults_of_wheel(packed(tmp_path, name, files))
    assert fault in found


SOURCE = ("LICENSE", "README.md", "pyproject.toml", "setup.py", "PKG-INFO")
SOURCE += tuple(f"jetstream_server/kernels/acks/{name}" for name in ("pure.py", "fast.pyx"))


def source(folder: Path, names: tuple[str, ...]) -> Path:
    archive = folder / "jetstream_server-1.2.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        for name in names:
            packed.addfile(tarfile.TarInfo(f"jetstream_server-1.2/{name}"), io.BytesIO())
    return archive


def test_a_good_source_distribution_has_no_fault(tmp_path):
    assert faults_of_source(source(tmp_path, SOURCE)) == []


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (SOURCE[1:], "LICENSE: missing"),
        (SOURCE[:-1], "acks: without its source"),
        (SOURCE[:-2], "no kernels"),
        ((*SOURCE, "jetstream_server/kernels/acks/fast.so"), "left over"),
        ((*SOURCE, "build/lib/x.py"), "left over"),
        ((*SOURCE, "jetstream_server/kernels/acks/fast.c"), "left over"),
    ],
)
def test_a_fault_of_a_source_distribution_is_found(tmp_path, names, fault):
    [found] = faults_of_source(source(tmp_path, names))
    assert fault in found


@pytest.mark.parametrize("project", wheels.PROJECTS, ids=lambda path: path.name)
def test_without_a_compiler_a_wheel_is_for_any_machine(project, tmp_path):
    """Built in a folder of its own: what was compiled in this one must not get in."""
    base = ["--build-base", str(tmp_path / "build")]
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    command += ["build", *base, "bdist_wheel", "--dist-dir", str(tmp_path)]
    command += ["--bdist-dir", str(tmp_path / "bdist")]
    environment = {**os.environ, "JETSTREAM_COMPILED": "0"}
    subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert faults_of_wheel(wheel) == []


def test_a_wheel_that_would_not_be_built_or_that_nobody_tries_is_named():
    machine = ("linux", "aarch64")
    each = [f"cp{version.replace('.', '')}" for version in wheels.PYTHONS]
    said = [
        f"{one}-{libraries}_aarch64" for one in each for libraries in manifests.MACHINES[machine]
    ]
    assert manifests.wheel_faults("\n".join(said), machine) == []
    [short] = manifests.wheel_faults("\n".join(said[1:]), machine)
    assert short == "cp311-manylinux_aarch64: would not be built"
    [long] = manifests.wheel_faults("\n".join([*said, "cp311-win_amd64"]), machine)
    assert long == "cp311-win_amd64: nobody tries it"


def test_the_workflow_builds_for_the_pythons_that_are_tried():
    said = {f"cp{version.replace('.', '')}-*" for version in wheels.PYTHONS}
    for project in wheels.PROJECTS:
        settings = tomllib.loads((project / "pyproject.toml").read_text())
        cibuildwheel = settings["tool"]["cibuildwheel"]
        assert set(cibuildwheel["build"].split()) == said
        assert {"x86_64", "aarch64"} == set(cibuildwheel["linux"]["archs"])
        classifiers = settings["project"]["classifiers"]
        for version in wheels.PYTHONS:
            assert f"Programming Language :: Python :: {version}" in classifiers
