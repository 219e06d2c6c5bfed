"""What the site is made of besides its pages: the generated reference, and pictures from text.

The site itself is built by `make docs`, with Sphinx, which a test run does not need.
"""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ET
from types import ModuleType

import pytest

from jetstream_spark import errors
from jetstream_spark.command.main import main
from jetstream_spark.options.format_options import SINK_KEYS, SOURCE_KEYS
from tests.pages import ROOT, blocks


def loaded(name: str) -> ModuleType:
    """A module of `docs`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return loaded("generate_reference")


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    return loaded("sequence_pictures")


# --- the generated reference ----------------------------------------------------------------


def rows(text: str) -> list[list[str]]:
    """The rows of tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in lines]


def test_every_option_is_in_the_list_with_its_meaning(reference):
    found = {row[0].strip("`"): row for row in rows(reference.options())}
    assert found.keys() == {*SOURCE_KEYS, *SINK_KEYS}
    assert [name for name, row in found.items() if not row[-1].strip()] == []
    assert found["servers"][1] == "read and write"
    assert found["maxOffsetsPerTrigger"][1:4] == ["read", "a whole number from 1", ""]
    assert found["fetchMaxBytes"][2:4] == ["a size", "`16MiB`"]
    assert found["publishMode"][1:4] == ["write", "`each`, `atomic` or `fast`", "`each`"]
    assert "#data-loss)" in found["failOnDataLoss"][-1]


def test_an_option_that_is_read_in_a_new_way_is_not_left_out(reference):
    with pytest.raises(KeyError):
        reference.recorded(lambda options: options.read("new", len, 0))


def test_every_name_of_the_configuration_is_in_the_list(reference):
    text = reference.settings()
    names = set(re.findall(r"`([a-z_0-9]+)`", text))
    for block in reference.blocks():
        assert block.table.keys() <= names, block.path
        assert (f"## `{block.path}`" in text) == bool(block.path)
    found = {row[0]: row for row in reversed(rows(text))}
    assert found["`max_payload`"][1:3] == ["a whole number of 32 bits", "`1 MiB`"]
    assert found["`ping_interval`"][2] == "`2m`" and found["`ping_interval`"][-1] == "yes"
    assert found["`listen`"][-1] == "no"
    assert "chacha" in found["`cipher`"][1]
    assert re.findall(r"^Refused: (.+)\.$", text, re.MULTILINE) == [
        "`tpm`",
        "`authorization`, `authentication`",
    ]
    assert "without effect: `unique_tag`" in text


def test_every_condition_is_in_the_list(reference):
    found = {row[0].strip("`"): row for row in rows(reference.conditions())}
    kinds = [getattr(errors, name) for name in errors.__all__]
    assert found.keys() == {kind.condition for kind in kinds if "condition" in vars(kind)}
    assert found["CONNECTION_LOST"][2] == "yes" and found["INVALID_OPTIONS"][2] == "no"


def test_every_command_says_what_it_does(reference):
    text = reference.commands()
    titles = re.findall(r"^## `(.+)`$", text, re.MULTILINE)
    assert {f"jetstream-spark {name}" for name in main.list_commands(None)} <= set(titles)
    assert {"jetstream-spark offsets reset", "jetstream-console", "jetstream-server"} <= set(titles)
    assert "--dry-run" in text and "--page-password" in text and "--store_dir" in text


def test_every_part_is_in_a_page_and_nothing_else_is_asked_for(reference):
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    assert set(reference.MARK.findall(pages)) == reference.PARTS.keys()
    filled = reference.filled("before\n\n<!-- generated: conditions -->\n")
    assert filled.startswith("before\n\n| Condition") and "<!--" not in filled


# --- pictures -------------------------------------------------------------------------------

PICTURES = list(blocks("docs/internals.md", "mermaid"))


@pytest.mark.parametrize("block", PICTURES, ids=lambda block: str(block.line))
def test_a_picture_shows_whoever_takes_part_and_all_that_is_said(pictures, block):
    root = ET.fromstring(pictures.svg(block.text))
    shown = " ".join(text.text for text in root.iter("{http://www.w3.org/2000/svg}text"))
    said = re.findall(r"(?: as |: )(.+)$", block.text, re.MULTILINE)
    assert len(said) > 8
    for text in said:
        for part in text.split("<br/>"):
            assert part in shown


@pytest.mark.parametrize("block", PICTURES, ids=lambda block: str(block.line))
def test_nothing_of_a_picture_is_outside_it(pictures, block):
    root = ET.fromstring(pictures.svg(block.text))
    _, _, width, height = map(float, root.get("viewBox").split())
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        half = len(text.text) * pictures.CHARACTER_WIDTH / 2
        place = float(text.get("x"))
        left, right = (
            (place, place + 2 * half)
            if text.get("text-anchor") == "start"
            else (place - half, place + half)
        )
        assert left >= 0 and right <= width, text.text
        assert float(text.get("y")) < height


def test_what_nobody_draws_is_an_error(pictures):
    head = "sequenceDiagram\nparticipant A as one\n"
    for wrong in ("graph TD\n", f"{head}loop forever\n", f"{head}A->>B: who?\n"):
        with pytest.raises(ValueError):
            pictures.svg(wrong)


def test_what_is_said_is_text_and_no_markup(pictures):
    drawn = pictures.svg("sequenceDiagram\nparticipant A as one\nA->>A: a < b & <script>\n")
    assert "a &lt; b &amp; &lt;script&gt;" in drawn


def test_a_page_has_its_pictures_in_one_piece(pictures):
    page = pictures.drawn("before\n\n```mermaid\nsequenceDiagram\nparticipant A\n```\n\nafter\n")
    assert page.startswith("before\n\n<div") and page.endswith("</div>\n\n\nafter\n")
    inside = page.partition("<div")[2].partition("</div>")[0]
    assert "\n\n" not in inside, "an empty line would end the block of HTML"
