"""Every module can be imported first, in a fresh interpreter: no hidden import order.

Files do not import each other in circles (`test_circles.py`), so it can only matter through a
package, which is imported before what is in it. Tried are all packages, and the files beside those
that import anything of ours; then everything at once.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# One process forks a child for each: a hundred interpreters would take a minute.
# What others wrote is imported beforehand; only our own modules are to be first.
PROGRAM = """
import importlib, os, sys, traceback
for name in ("cryptography.x509", "numpy", "orjson", "prometheus_client", "pyarrow", "pydantic",
             "pyspark.sql.datasource", "starlette.applications", "uvicorn", "websockets.server"):
    importlib.import_module(name)
failed = []
for names in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        try:
            for name in names.split():
                importlib.import_module(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        failed.append(names)
print("\\n".join(failed))
"""


def _modules(folder: Path, package: str) -> dict[str, Path]:
    """Return the files of a package by the names of their modules."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return {name: path for name, path in found.items() if not name.endswith("__main__")}


def _may_mind(path: Path) -> bool:
    """Tell whether a file is a package, or beside one that imports something of ours."""
    beside = (path.parent / "__init__.py").read_text()
    return path.name == "__init__.py" or bool(
        re.search(r"^ *(import|from) \w*jetstream", beside, re.M)
    )


@pytest.mark.timeout(310)  # a fraction of it when the machine has nothing else to do
def test_each_module_imports_alone():
    modules = _modules(ROOT / "server/jetstream_server", "jetstream_server")
    modules |= _modules(ROOT / "server/jetstream_console", "jetstream_console")
    modules |= _modules(ROOT / "jetstream_spark", "jetstream_spark")
    modules |= _modules(ROOT / "pyspark_jetstream", "pyspark_jetstream")
    alone = [name for name, path in modules.items() if _may_mind(path)]
    assert len(modules) > 400 and 60 < len(alone) < 100
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *alone, " ".join(modules)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip() == "", done.stderr
