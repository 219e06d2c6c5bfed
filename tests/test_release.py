"""What a release needs besides code: told changes, tried extras, ways to report."""

from __future__ import annotations

import re

import jetstream_spark
from tests import extras, sbom
from tests.pages import ROOT
from tests.test_distributions import declared

CHANGES = (ROOT / "CHANGELOG.md").read_text()


def test_the_newest_changes_are_those_of_this_version():
    titles = re.findall(r"^## (.+)$", CHANGES, re.MULTILINE)
    found = [
        re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((unreleased|\d{4}-\d\d-\d\d)\)", t) for t in titles
    ]
    assert all(found), titles
    numbers = [tuple(map(int, title.groups()[:3])) for title in found]
    assert ".".join(map(str, numbers[0])) == jetstream_spark.__version__
    assert numbers == sorted(set(numbers), reverse=True)
    assert all(title[4] != "unreleased" for title in found[1:])


def test_each_change_is_a_sentence():
    entries = re.split(r"^- ", CHANGES.partition("\n## ")[2], flags=re.MULTILINE)[1:]
    assert len(entries) > 30
    assert [entry for entry in entries if not entry.strip().endswith((".", ".)"))] == []
    # A line that is no entry and no part of one belongs to nothing.
    lines = [line for line in CHANGES.splitlines() if line]
    assert [line for line in lines if not line.startswith(("#", "- ", "  "))] == []


def test_every_extra_is_tried_by_what_it_promises():
    assert extras.PROMISES.keys() == set(extras.extras())


def bill(**main: str) -> dict:
    names = {extras.SERVER, *declared("jetstream-spark"), *declared(extras.SERVER)}
    component = {"name": "jetstream-spark", "version": jetstream_spark.__version__}
    return {
        "metadata": {"component": {**component, "bom-ref": "r", **main}},
        "components": [{"name": name, "version": "1"} for name in names],
        "dependencies": [{"ref": "r", "dependsOn": ["pyspark"]}],
    }


def test_a_bill_of_materials_is_about_this_version_and_all_that_it_brings():
    assert sbom.faults(bill()) == []
    assert "the version of what" in sbom.faults(bill(version=""))[0]
    assert "the name of what" in sbom.faults(bill(name="x"))[0]
    short = bill()
    short["components"] = [one for one in short["components"] if one["name"] != "pyarrow"]
    assert sbom.faults(short) == ["pyarrow: missing"]
    del short["components"][0]["version"]
    assert "no version" in sbom.faults(short)[-1]
    assert "depends on" in sbom.faults({**bill(), "dependencies": []})[-1]


def test_how_to_report_is_said_and_found():
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    for name in ("SECURITY.md", "CODE_OF_HABITS.md"):
        assert f"({name})" in contributing
    assert jetstream_spark.__version__ in (ROOT / "SECURITY.md").read_text()
