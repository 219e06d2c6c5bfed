"""Every module can be imported first, in a fresh interpreter: no hidden import order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# One process forks a child per module: a hundred interpreters would take a minute.
# What others wrote is imported beforehand; only our own modules are to be first.
PROGRAM = """
import importlib, os, sys, traceback
for name in ("cryptography.x509", "numpy", "orjson", "prometheus_client", "pyarrow", "pydantic",
             "pyspark.sql.datasource", "starlette.applications", "uvicorn", "websockets.server"):
    importlib.import_module(name)
failed = []
for name in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        try:
            importlib.import_module(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        failed.append(name)
print("\\n".join(failed))
"""


def _modules(folder: Path, package: str) -> list[str]:
    names = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        names.append(".".join((package, *(part for part in parts if part != "__init__"))))
    return [name for name in names if not name.endswith("__main__")]


@pytest.mark.timeout(310)  # a quarter of it when the machine has nothing else to do
def test_each_module_imports_alone():
    names = _modules(ROOT / "server/jetstream_server", "jetstream_server")
    names += _modules(ROOT / "jetstream_spark", "jetstream_spark")
    names += _modules(ROOT / "pyspark_jetstream", "pyspark_jetstream")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "", done.stderr
