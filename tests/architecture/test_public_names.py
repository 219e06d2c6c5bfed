"""What may be imported is said, and is all that the documentation imports."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What users import, and no more than that: a name that goes from here is a breaking change.
PUBLIC = {
    "jetstream_server": {"API_LEVEL", "NATS_VERSION", "__version__"},
    "jetstream_spark": {"__version__", "__version_info__", "observe", "schema", "validate"},
    "jetstream_spark.data_source": {"JetStreamDataSource"},
    "jetstream_spark.embedded": {"JetStreamServer"},
    "pyspark_jetstream": {"DefaultSource", "register"},
}
PACKAGES = "(?:jetstream_console|jetstream_spark|jetstream_server|pyspark_jetstream)"


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_offers_what_it_is_to_and_nothing_else(name: str) -> None:
    module = import_module(name)
    assert set(module.__all__) == PUBLIC[name]
    assert all(hasattr(module, each) for each in module.__all__)


def test_all_errors_of_the_connector_are_public() -> None:
    errors = import_module("jetstream_spark.errors")
    classes = inspect.getmembers(errors, inspect.isclass)
    assert set(errors.__all__) == {name for name, kind in classes if issubclass(kind, Exception)}


def test_the_top_package_shows_nothing_else() -> None:
    # In a process of its own: submodules that others have imported are attributes as well.
    program = "import jetstream_spark as j; print(*(n for n in dir(j) if n[0] != '_'))"
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["observe", "schema", "validate"]


def test_the_documentation_imports_nothing_else() -> None:
    errors = import_module("jetstream_spark.errors")
    public = {**PUBLIC, "jetstream_spark.errors": set(errors.__all__)}
    pages = [
        path for pattern in ("*.md", "*/README.md", "docs/**/*.md") for path in ROOT.glob(pattern)
    ]
    found = 0
    for path in [*pages, *_examples()]:
        text = path.read_text()
        taken = re.findall(rf"^\W*from ({PACKAGES}[\w.]*) import ([\w, ]+)", text, flags=re.M)
        for module, names in taken:
            assert {name.split()[0] for name in names.split(",")} <= public[module], path
        whole = re.findall(rf"^\W*import ({PACKAGES}[\w.]*)", text, flags=re.M)
        assert set(whole) <= public.keys(), path
        found += len(taken) + len(whole)
    assert found


def _examples() -> list[Path]:
    """Return the examples; what they share, `_demo`, looks inside to explain what is seen."""
    examples = (ROOT / "examples").iterdir()
    return [path for path in examples if path.suffix in (".py", ".ipynb") and path.name[0] != "_"]
