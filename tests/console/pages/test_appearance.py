"""Each class that a page uses has a rule."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jetstream_console.pages
from jetstream_console.pages.appearance import _RULES

PAGES = sorted(Path(jetstream_console.pages.__file__).parent.glob("*.py"))
# The library of pages has rules for these, and gives its own parts those.
THEIRS = {"no-wrap", "nicegui-link"}
THEIR_PARTS = {"q-table__bottom-nodata-icon"}


def test_each_class_has_a_rule_and_each_rule_a_class():
    used = set()
    for path in PAGES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "classes":
                for given in node.args:
                    assert isinstance(given, ast.Constant)
                    used |= set(given.value.split())
    ruled = set(re.findall(r"\.([a-z][a-z0-9_-]*)", _RULES))
    assert used - THEIRS == ruled - THEIR_PARTS
