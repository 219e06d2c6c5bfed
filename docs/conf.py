"""How Sphinx makes the site: `make docs`.

The root of the repository is the source folder, so a relative link that works on a code host works
in the site, README and ARCHITECTURE included. Pages say nothing that only Sphinx understands: lists
of links become the navigation, and `<!-- generated: ... -->` is filled in, both here.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(ROOT / "server"), str(DOCS)]

import generate_reference  # noqa: E402
import sequence_pictures  # noqa: E402

import jetstream_spark  # noqa: E402

project = "jetstream-spark"
author = "the authors of jetstream-spark"
release = version = jetstream_spark.__version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "benchmarks/*.md",
    "docs/**",
    "examples/*.md",
    "tests/parity/*.md",
]
exclude_patterns = ["docs/site_root", ".venv*", ".git", ".demo", "build", "**/__pycache__"]
source_suffix = {".md": "markdown"}

myst_enable_extensions: list[str] = []
myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
suppress_warnings = ["myst.header"]  # a page may leave out a level of headings

html_theme = "furo"
html_title = f"jetstream-spark {release}"
html_extra_path = ["site_root"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options: dict[str, Any] = {"navigation_with_keys": True}
# Nothing comes from elsewhere, fonts included.
html_css_files: list[str] = []

# Pages whose lists of links are the navigation.
LISTS = ("docs/index", "docs/reference/README")
_LINK = re.compile(r"^(?:- |\| )\[([^\]]+)\]\(([\w./-]+\.md)\)", re.MULTILINE)


def _toctrees(text: str) -> str:
    """The navigation that a page's headings and their lists of links stand for."""
    made = ""
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        pages = [target for _, target in _LINK.findall(section)]
        if pages:
            caption = section.partition("\n")[0] if not section.startswith("# ") else ""
            head = f":caption: {caption}\n" if caption else ""
            made += f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n{head}\n" + "\n".join(pages)
            made += "\n```\n"
    return made


def _complete(app: Any, page: str, source: list[str]) -> None:
    """Fill in what a page leaves to the build."""
    text = generate_reference.filled(source[0])
    text = sequence_pictures.drawn(text)
    source[0] = text + (_toctrees(text) if page in LISTS else "")


def setup(app: Any) -> dict[str, bool]:
    """Have every page completed before it is parsed."""
    app.connect("source-read", _complete)
    app.add_lexer("conf", TextLexer)  # of the server's files, which no lexer reads
    return {"parallel_read_safe": True, "parallel_write_safe": True}
