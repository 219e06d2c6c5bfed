"""Looks into the bill of materials that `make sbom` has written: `python -m tests.sbom FILE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jetstream_spark
from tests.extras import SERVER
from tests.test_distributions import declared

PROJECT = "jetstream-spark"


def faults(told: dict[str, Any]) -> list[str]:
    """What is wrong with a bill of materials; nothing if it is as it should be."""
    found = []
    main = told.get("metadata", {}).get("component", {})
    for name, value in (("name", PROJECT), ("version", jetstream_spark.__version__)):
        if main.get(name) != value:
            found.append(f"the {name} of what it is about is {main.get(name)!r}, and not {value!r}")
    components = {each["name"].lower().replace("_", "-"): each for each in told["components"]}
    for needed in sorted({SERVER, *declared(PROJECT), *declared(SERVER)} - {PROJECT}):
        if needed not in components:
            found.append(f"{needed}: missing")
    found += [f"{name}: no version" for name, each in components.items() if not each.get("version")]
    needs = {each["ref"]: each.get("dependsOn", []) for each in told.get("dependencies", [])}
    if not needs.get(main.get("bom-ref")):
        found.append("it does not say what the project depends on")
    return found


def main(arguments: list[str]) -> int:
    """Look into a file; return how much is wrong with it."""
    [name] = arguments
    told = json.loads(Path(name).read_text())
    found = faults(told)
    for fault in found:
        print(f"FAILED: {fault}")
    print(f"{name}: {len(told['components'])} components; {len(found)} failures")
    return len(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
