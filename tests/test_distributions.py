"""Two distributions, the server and the connector: what each asks for, brings, and does without."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from importlib.metadata import Distribution, distributions, packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECTS = {"jetstream-server": ROOT / "server", "jetstream-spark": ROOT}
PACKAGES = {
    "jetstream-server": [ROOT / "server" / "jetstream_server"],
    "jetstream-spark": [
        ROOT / "jetstream_spark",
        ROOT / "pyspark_jetstream",
        ROOT / "server" / "jetstream_console",
    ],
}
# Rooms that need an extra.
EXTRAS = {
    "console": ROOT / "server" / "jetstream_console",
    "cli": ROOT / "jetstream_spark" / "command",
    "prometheus": ROOT / "jetstream_spark" / "observation" / "prometheus.py",
    "opentelemetry": ROOT / "jetstream_spark" / "observation" / "opentelemetry.py",
}
# Of distributions that share a package, the one whose part is imported.
SHARED = {"opentelemetry": "opentelemetry-api"}
READ_BY_ZONEINFO = {"tzdata"}
OUR_OWN = {"jetstream_console", "jetstream_server", "jetstream_spark", "pyspark_jetstream"}

each_distribution = pytest.mark.parametrize("name", PROJECTS)


def settings(name: str) -> dict:
    return tomllib.loads((PROJECTS[name] / "pyproject.toml").read_text())["project"]


def installed(name: str) -> Distribution:
    """A distribution as it is installed, not what an installation leaves beside the sources."""
    places = [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]
    return next(iter(distributions(name=name, path=places)))


def declared(name: str) -> set[str]:
    """The distributions that a distribution asks for, without its extras."""
    return {_name(line) for line in settings(name)["dependencies"]}


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return match[0].lower().replace("_", "-")


def imported(*folders: Path) -> set[str]:
    """The distributions whose packages the sources in some folders import, extras apart."""
    owners = packages_distributions()
    packages: set[str] = set()
    sources = [
        path for each in folders for path in (each.rglob("*.py") if each.is_dir() else [each])
    ]
    for source in sources:
        if any(source.is_relative_to(room) and room not in folders for room in EXTRAS.values()):
            continue
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                packages |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                packages.add(node.module.partition(".")[0])
    packages -= {*sys.stdlib_module_names, *OUR_OWN}
    return {SHARED.get(package) or _name(owners[package][0]) for package in packages}


@each_distribution
def test_it_asks_for_what_it_imports_and_nothing_else(name):
    always = [folder for folder in PACKAGES[name] if folder not in EXTRAS.values()]
    assert declared(name) - READ_BY_ZONEINFO == imported(*always)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_what_its_room_imports_besides(extra):
    asked = settings("jetstream-spark")["optional-dependencies"][extra]
    assert {_name(line) for line in asked} == imported(EXTRAS[extra]) - declared("jetstream-spark")


def test_the_server_is_an_extra_of_the_connector():
    extras = settings("jetstream-spark")["optional-dependencies"]
    assert [_name(line) for line in extras["server"]] == ["jetstream-server"]
    assert extras["server"][0] in extras["demo"]


@pytest.mark.parametrize(
    ("tried", "others"),
    [
        ("jetstream_spark pyspark_jetstream", "jetstream-server"),
        ("jetstream_server", "jetstream-spark"),
    ],
)
def test_each_works_where_the_other_and_what_it_asks_for_are_not_installed(tried, others):
    mine = declared({"jetstream-server": "jetstream-spark"}.get(others, "jetstream-server"))
    owners = packages_distributions()
    theirs = declared(others) - mine
    blocked = {package for package, of in owners.items() if {_name(each) for each in of} <= theirs}
    blocked |= OUR_OWN - set(tried.split())
    program = f"""
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(blocked)!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
for package in {tried.split()!r}:
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, package + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print(len([name for name in sys.modules if name.startswith({tried.split()[0]!r})]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40


@each_distribution
def test_what_is_installed_has_kernels_and_not_their_sources(name):
    files = [Path(str(each)) for each in installed(name).files or []]
    assert {file.suffix for file in files} & {".pyx", ".pxd", ".c"} == set()
    typed = {file.parent.name for file in files if file.name == "py.typed"}
    assert (
        typed
        == {
            "jetstream-server": {"jetstream_server"},
            "jetstream-spark": {"jetstream_console", "jetstream_spark"},
        }[name]
    )
    assert any(file.name == "LICENSE" for file in files)
    for compiled in (file for file in files if file.suffix == ".so"):
        content = Path(str(installed(name).locate_file(compiled))).read_bytes()
        assert b".debug_info" not in content, f"{compiled} has debug symbols"


def test_nothing_is_installed_by_both():
    ours = {
        name: {str(file) for file in installed(name).files or [] if ".dist-info" not in str(file)}
        for name in PROJECTS
    }
    assert ours["jetstream-server"] & ours["jetstream-spark"] == set()
    assert not any(file.startswith("jetstream_server") for file in ours["jetstream-spark"])


@each_distribution
def test_a_source_distribution_can_be_built_from_and_brings_its_licence(name, tmp_path):
    options = ["egg_info", "--egg-base", str(tmp_path), "sdist", "--dist-dir", str(tmp_path)]
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", *options],
        cwd=PROJECTS[name],
        capture_output=True,
        check=True,
    )
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        names = {member.partition("/")[2] for member in packed.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "setup.py"} <= names
    sources = {
        str(file.relative_to(PROJECTS[name]))
        for folder in PACKAGES[name]
        for suffix in ("*.py", "*.pyx", "*.pxd")
        for file in folder.rglob(suffix)
    }
    assert sources <= names
    assert not any(name.endswith((".so", ".pyc")) for name in names)
    if name == "jetstream-spark":
        assert {"docs/options.md", "tests/test_distributions.py", "examples/flights.py"} <= names
        # What tests look at, besides.
        assert {"docker/Dockerfile", "monitoring/alerts.yml", ".github/workflows/ci.yml"} <= names


def test_the_licence_is_one():
    assert (ROOT / "server" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@each_distribution
def test_what_an_index_shows_has_no_link_into_the_repository(name):
    text = (PROJECTS[name] / settings(name)["readme"]).read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


@each_distribution
def test_the_version_is_said_once(name):
    assert "version" in settings(name)["dynamic"]
    [package, *_] = PACKAGES[name]
    [version] = re.findall(r'^__version__ = "(.+)"$', (package / "__init__.py").read_text(), re.M)
    assert version == installed(name).version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()
