"""The pages of the documentation, the blocks of code in them, and servers to run them with."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command.main import main
from jetstream_spark.options.format_options import SinkOptions

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class CodeBlock(NamedTuple):
    """A fenced block: its language, its text, and the line of its first line, from 1."""

    language: str
    text: str
    line: int


def pages() -> list[Path]:
    """All pages of the site."""
    folders = ("", "benchmarks/", "examples/", "tests/parity/")
    beside = (page for folder in folders for page in ROOT.glob(f"{folder}*.md"))
    return sorted([*beside, *(ROOT / "docs").rglob("*.md")])


def name_of(page: Path) -> str:
    """Its path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: str, language: str = "") -> Iterator[CodeBlock]:
    """Yield the blocks of a page, all or those in one language."""
    text = (ROOT / page).read_text()
    for found in _FENCE.finditer(text):
        if not language or found[1] == language:
            yield CodeBlock(found[1], found[2], text.count("\n", 0, found.start(2)) + 1)


def control_of(url: str, **options: str) -> Blocking:
    """Requests to a server."""
    parsed = SinkOptions.parse({"servers": url, **options})
    return Blocking(Control(this_host(), parsed.connection, "test"))


def called(text: str, **variables: str) -> str:
    """Run a line of `jetstream-spark`, which must succeed; return what it says.

    Args:
        variables: what stands for `$NAME` in it.
    """
    for name, value in variables.items():
        text = text.replace(f"${name}", value)
    words = shlex.split(text.replace("\\\n", " "))[1:]
    result = CliRunner().invoke(main, words, input="y\n", catch_exceptions=False)
    assert result.exit_code == 0, (text, result.output)
    return result.output


def typed(text: str, folder: Path) -> None:
    """Type lines into a shell that is in a folder; each of them must succeed."""
    done = subprocess.run(["bash", "-euc", text], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
