"""Tries versions of PySpark and of Python, each pair in an environment of its own.

    python -m tests.versions                 PySpark 4.0 to 4.3 with this Python; `make versions`
    python -m tests.versions 4.1 4.2@3.12    some; 4.2@3.12 is PySpark 4.2 with Python 3.12
    python -m tests.versions --pythons       the newest PySpark with each Python; `make pythons`
    python -m tests.versions --all           every pair that PySpark supports

The environments stay in `.venv-versions` and are used again. Each gets the wheels of this working
copy with compiled kernels, so what is tried is what users install.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.versions import spark_wheel
from tests.versions.interpreters import NoInterpreterError, find, tool

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-versions"
SMOKE = Path(__file__).with_name("smoke.py")
HERE = "{}.{}".format(*sys.version_info)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# The Pythons that each PySpark is said to support, of those that the connector does.
SUPPORTED = {"4.0": PYTHONS[:3], "4.1": PYTHONS, "4.2": PYTHONS, "4.3": PYTHONS}
NEWEST = max(SUPPORTED)
SMOKE_SECONDS_MAX = 600
# A Python without bytecode compiles all of PySpark in each process that Spark starts, and of a busy
# machine Spark does not wait for that: it gives a worker ten seconds to connect.
NOT_OF_THE_PAIR = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")


def uv(*arguments: str | Path) -> None:
    """Call uv, which makes environments of any interpreter."""
    environment = {**os.environ, "JETSTREAM_COMPILED": "1"}
    environment.pop("PYTHONPATH", None)
    command = [str(tool("uv")), arguments[0], "--quiet", *map(str, arguments[1:])]
    subprocess.run(command, check=True, env=environment)


def build_wheels(python: Path, version: str) -> list[Path]:
    """Build the wheels of this working copy, the server's and the connector's, for a Python."""
    target = FOLDER / f"wheel-{version}"
    for old in target.glob("*.whl"):
        old.unlink()
    for project in (ROOT / "server", ROOT):
        uv("build", "--wheel", "--python", python, "--out-dir", target, project)
    return sorted(target.glob("*.whl"))


def environment(pyspark: str, version: str, python: Path, wheels: list[Path]) -> Path:
    """Make or update the environment of a pair; return its interpreter."""
    folder = FOLDER / f"{pyspark}-{version}"
    if not folder.exists():
        uv("venv", "--python", python, folder)
    spark = spark_wheel.build(f"pyspark=={pyspark}.*", FOLDER / f"spark-{pyspark}")
    spark_wheel.install(spark, folder, FOLDER / "spark-cache")
    install = ("pip", "install", "--compile-bytecode", "--python", folder)
    uv(*install, *spark_wheel.NEVER_BUILT, f"pyspark=={pyspark}.*", *wheels)
    uv(*install, "--no-deps", "--reinstall", *wheels)
    return folder / "bin" / "python"


def pairs_of(arguments: list[str]) -> list[tuple[str, str]]:
    """The pairs of PySpark and Python that the arguments mean."""
    if arguments == ["--all"]:
        return [(pyspark, python) for pyspark, those in SUPPORTED.items() for python in those]
    if arguments == ["--pythons"]:
        return [(NEWEST, python) for python in PYTHONS]
    words = [argument.partition("@") for argument in arguments or SUPPORTED]
    return [(pyspark, python or HERE) for pyspark, _, python in words]


def smoke(python: Path) -> bool:
    """Run the small reads and writes; True if all went well."""
    own = {key: value for key, value in os.environ.items() if key not in NOT_OF_THE_PAIR}
    # From another folder, so that the wheel is imported and not the working copy.
    done = subprocess.run([str(python), str(SMOKE)], cwd=FOLDER, env=own, timeout=SMOKE_SECONDS_MAX)
    return done.returncode == 0


def main(arguments: list[str]) -> int:
    """Try the pairs; return how many failed."""
    FOLDER.mkdir(exist_ok=True)
    wheels: dict[str, tuple[Path, list[Path]]] = {}
    failed, tried = [], []
    for pyspark, version in pairs_of(arguments):
        name = f"PySpark {pyspark} with Python {version}"
        tried.append(name)
        try:
            if version not in wheels:
                python = find(version, FOLDER)
                wheels[version] = python, build_wheels(python, version)
            is_good = smoke(environment(pyspark, version, *wheels[version]))
        except (NoInterpreterError, subprocess.SubprocessError) as error:
            print(f"{name}: {error}", flush=True)
            is_good = False
        if not is_good:
            failed.append(name)
    for name in tried:
        print(f"{name}: {'FAILED' if name in failed else 'good'}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
