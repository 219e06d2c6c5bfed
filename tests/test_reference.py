"""Whatever names a document names one that is in the repository, and a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
FOLDERS = "server jetstream_spark pyspark_jetstream tests benchmarks examples docs docker .github"
KINDS = {".py", ".pyx", ".pxd", ".md", ".toml", ".yml", ".yaml"}
# `docs/reference/streams.md#limits and #retention`: the second heading is of the same file.
NAMED = re.compile(
    r"(?<![\w.*/-])((?:[\w.-]+/)*[\w-]+\.md)((?:#[\w-]+)?(?:,? and #[\w-]+|, #[\w-]+)*)"
)
# Sections of a document that is not here, as they were cited once: "reference 5.2", "Appendix G".
ELSEWHERE = re.compile(r"\b[Rr]eference (?:section )?\d|\bAppendix [A-Z]\b|\bgotcha \d")


def documents() -> list[Path]:
    below = (path for folder in FOLDERS.split() for path in (ROOT / folder).rglob("*"))
    beside = (*ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile")
    return [*beside, *(path for path in below if path.suffix in KINDS)]


def headings(path: Path) -> set[str]:
    """Return the anchors of a document, as the usual hosts make them."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    titles = re.findall(r"^#{1,6} (.+)$", prose, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def dangling(text: str, folder: Path) -> list[str]:
    """Return what `text`, of a file in `folder`, names and is not there."""
    missing = ELSEWHERE.findall(text)
    text = re.sub(r"\[[^\]\n]*\]\(", "(", text)  # where a link leads, not what it is called
    # A citation may be broken after its file or its first heading, in a comment too.
    for name, anchors in NAMED.findall(re.sub(r"\n[ \t]*(?:# )?", " ", text)):
        found = next((path for path in (ROOT / name, folder / name) if path.is_file()), None)
        if found is None:
            missing.append(name)
            continue
        cited = re.findall(r"#([\w-]+)", anchors)
        missing += [f"{name}#{anchor}" for anchor in cited if anchor not in headings(found)]
    return missing


def test_nothing_is_cited_that_is_not_there():
    files = [path for path in documents() if path != Path(__file__)]
    assert len(files) > 300
    found = {path: dangling(path.read_text(), path.parent) for path in files}
    assert {str(path.relative_to(ROOT)): names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see docs/reference/streams.md#retention.", []),
        ("see docs/reference/streams.md#limits and #retention.", []),
        ("see docs/reference/streams.md#limits and\n    # #retention.", []),
        (
            "see docs/reference/streams.md#limits and #nowhere",
            ["docs/reference/streams.md#nowhere"],
        ),
        ("see docs/reference/nowhere.md", ["docs/reference/nowhere.md"]),
        ("[x](streams.md#direct-get)", []),
        ("see jetstream.md 5.4", ["jetstream.md"]),
        ("as in reference 5.2 and Appendix G", ["reference 5", "Appendix G"]),
    ],
)
def test_a_dangling_citation_is_found(text, names):
    assert dangling(text, REFERENCE) == names


def test_every_page_of_the_reference_is_in_its_list():
    listed = set(re.findall(r"^\| \[([\w-]+\.md)\]", (REFERENCE / "README.md").read_text(), re.M))
    assert listed == {path.name for path in REFERENCE.glob("*.md")} - {"README.md"}


def test_the_source_cites_the_reference():
    sources = [path for path in documents() if path.suffix == ".py" and "tests" not in path.parts]
    citing = [path for path in sources if "docs/reference/" in path.read_text()]
    assert len(citing) > 100
