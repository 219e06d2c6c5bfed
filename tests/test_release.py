"""What a release needs besides code: told changes, tried extras, ways to report."""

from __future__ import annotations

import re

import jetstream_spark
from tests import extras
from tests.pages import ROOT

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


def test_how_to_report_is_said_and_found():
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    for name in ("SECURITY.md", "CODE_OF_HABITS.md"):
        assert f"({name})" in contributing
    assert jetstream_spark.__version__ in (ROOT / "SECURITY.md").read_text()
