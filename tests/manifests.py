"""Checks what other programs read against their schemas: `make manifests`.

The manifests of the page on containers, for the oldest and the newest Kubernetes whose schemas are
known, without properties that Kubernetes would drop; the compose file; the workflows, these by
`actionlint` as well where it is on the PATH; and which wheels `cibuildwheel` would build in them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from tests.pages import blocks
from tests.wheels import PROJECTS, PYTHONS

ROOT = Path(__file__).parents[1]
PAGES = ("docs/how-to/containers.md",)
FILES = {
    "vendor.compose-spec": [ROOT / "docker" / "compose.yaml"],
    "vendor.github-workflows": sorted((ROOT / ".github" / "workflows").glob("*.yml")),
}

# What the machines of the workflow are, and the libraries that wheels are built for there.
MACHINES = {
    ("linux", "x86_64"): ("manylinux", "musllinux"),
    ("linux", "aarch64"): ("manylinux", "musllinux"),
    ("macos", "x86_64"): ("macosx",),
    ("macos", "arm64"): ("macosx",),
}


def wheel_faults(said: str, machine: tuple[str, str]) -> list[str]:
    """What is wrong with the wheels that `cibuildwheel` says it would build on a machine."""
    wanted = {
        f"cp{version.replace('.', '')}-{libraries}_{machine[1]}"
        for version in PYTHONS
        for libraries in MACHINES[machine]
    }
    found = set(said.split())
    missing = [f"{name}: would not be built" for name in sorted(wanted - found)]
    return missing + [f"{name}: nobody tries it" for name in sorted(found - wanted)]


def _said_wheels(project: Path, machine: tuple[str, str]) -> str:
    platform, architecture = machine
    words = ("--print-build-identifiers", "--platform", platform, "--archs", architecture)
    command = [sys.executable, "-m", "cibuildwheel", *words, str(project)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def kubernetes_faults(manifest: dict[str, Any], versions: list[str]) -> list[str]:
    """What is wrong with a manifest; nothing if each of these Kubernetes would take it."""
    checker: Any = import_module("kubernetes_validate")
    faults = []
    for version in versions:
        try:
            checker.validate(manifest, version, strict=True)
        except (checker.ValidationError, checker.SchemaNotFoundError) as error:
            said = str(error).partition("\n")[0]  # the rest is the schema
            faults.append(f"{manifest.get('kind')}, Kubernetes {version}: {said}")
    return faults


def known_kubernetes() -> list[str]:
    """The oldest and the newest whose schemas are installed."""
    checker: Any = import_module("kubernetes_validate")
    folder = Path(checker.__file__).parent / "kubernetes-json-schema"
    found = [each.name.split("-")[0].removeprefix("v") for each in folder.glob("v*-strict")]
    ordered = sorted(found, key=lambda version: [int(part) for part in version.split(".")])
    return [ordered[0], ordered[-1]]


def _command_fails(*command: str | Path) -> bool:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    print(done.stdout + done.stderr, end="", flush=True)
    return done.returncode != 0


def main() -> int:
    """Check all; return how much is wrong."""
    versions = known_kubernetes()
    faults = []
    for page in PAGES:
        manifests = [
            one for block in blocks(page, "yaml") for one in yaml.safe_load_all(block.text)
        ]
        for manifest in manifests:
            faults += kubernetes_faults(manifest, versions)
        print(f"{page}: {len(manifests)} manifests, for Kubernetes {' and '.join(versions)}")
    for schema, files in FILES.items():
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
        if _command_fails(*command, *files):
            faults.append(f"{schema}: {', '.join(each.name for each in files)}")
    for project in PROJECTS:
        found = [
            one for each in MACHINES for one in wheel_faults(_said_wheels(project, each), each)
        ]
        print(f"{project.name}: wheels for {len(MACHINES)} kinds of machine")
        faults += [f"{project.name}: {one}" for one in found]
    if actionlint := shutil.which("actionlint"):
        if _command_fails(actionlint):
            faults.append("actionlint")
    else:
        print(
            "actionlint is not here: go install github.com/rhysd/actionlint/cmd/actionlint@latest"
        )
    for fault in faults:
        print(f"FAILED: {fault}")
    return len(faults)


if __name__ == "__main__":
    sys.exit(main())
