"""Draws pictures of who tells whom what, from text in a page: an SVG without script or font.

The text is Mermaid's, which code hosts draw themselves; of its sequence diagrams this knows

    participant D as driver
    D->>S: asks        (dashed: -->>)
    Note over D,S: what both know

and `<br/>` in a text. Anything else is an error, as a picture that lacks a line would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from typing import NamedTuple

BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PARTICIPANT = re.compile(r"participant (\w+)(?: as (.+))?")
_ARROW = re.compile(r"(\w+)(--?)>>(\w+): ?(.+)")
_NOTE = re.compile(r"Note over (\w+)(?:, ?(\w+))?: ?(.+)")

CHARACTER_WIDTH = 6.6  # of the letters below, more than most have
LINE_HEIGHT = 16
GAP = 28
ROW_GAP = 14
LOOP_WIDTH = 36
MARGIN = 12
HEAD_HEIGHT = 30


class Arrow(NamedTuple):
    """Something that one tells another, or does by itself."""

    start: str
    end: str
    text: tuple[str, ...]
    is_dashed: bool


class Note(NamedTuple):
    """Something that holds for those from `first` to `last`."""

    first: str
    last: str
    text: tuple[str, ...]


class Picture(NamedTuple):
    """Who takes part, by their short names, and what happens in turn."""

    participants: dict[str, str]
    steps: list[Arrow | Note]


def read(text: str) -> Picture:
    """Read the text of a picture.

    Raises:
        ValueError: a line is none of those that are known, or names nobody who takes part.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines[:1] != ["sequenceDiagram"]:
        raise ValueError(f"not a sequence diagram: {lines[:1]}")
    participants: dict[str, str] = {}
    steps: list[Arrow | Note] = []
    for line in lines[1:]:
        if found := _PARTICIPANT.fullmatch(line):
            participants[found[1]] = found[2] or found[1]
        elif found := _ARROW.fullmatch(line):
            steps.append(Arrow(found[1], found[3], _broken(found[4]), found[2] == "--"))
        elif found := _NOTE.fullmatch(line):
            steps.append(Note(found[1], found[2] or found[1], _broken(found[3])))
        else:
            raise ValueError(f"a line that nobody draws: {line!r}")
    named = {name for step in steps for name in step[:2]}
    if not named <= participants.keys():
        raise ValueError(f"not among the participants: {sorted(named - participants.keys())}")
    return Picture(participants, steps)


def _broken(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in re.split(r"<br ?/?>", text))


def _width(text: tuple[str, ...]) -> float:
    return max(map(len, text)) * CHARACTER_WIDTH


def _columns(picture: Picture) -> dict[str, float]:
    """Where each participant's line is: far enough apart for what is written between them."""
    names = list(picture.participants)
    widths = [_width((told,)) + 20 for told in picture.participants.values()]
    gaps = [(one + other) / 2 + GAP for one, other in pairwise(widths)]
    after = widths[-1] / 2
    for step in picture.steps:
        first, last = sorted((names.index(step[0]), names.index(step[1])))
        if first == last:
            # It stands to the right of its line, or around it.
            wanted = _width(step.text) + (LOOP_WIDTH + GAP if isinstance(step, Arrow) else GAP)
            if isinstance(step, Note):
                wanted = wanted / 2 + GAP
            if first < len(gaps):
                gaps[first] = max(gaps[first], wanted)
            else:
                after = max(after, wanted)
            if isinstance(step, Note) and first > 0:
                gaps[first - 1] = max(gaps[first - 1], wanted)
            continue
        missing = _width(step.text) + GAP - sum(gaps[first:last])
        if missing > 0:
            for between in range(first, last):
                gaps[between] += missing / (last - first)
    place = MARGIN + widths[0] / 2
    columns = {names[0]: place}
    for name, gap in zip(names[1:], gaps, strict=True):
        place += gap
        columns[name] = place
    columns[""] = place + after + MARGIN
    return columns


def svg(text: str) -> str:
    """Draw a picture; no line of the result is empty.

    Raises:
        ValueError: as `read`.
    """
    picture = read(text)
    columns = _columns(picture)
    drawn = list(_steps(picture, columns))
    bottom = drawn[-1][0] + 8 if drawn else HEAD_HEIGHT
    width = columns.pop("")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:.0f} {bottom:.0f}"'
        f' style="max-width:{width:.0f}px;width:100%;height:auto" font-family="sans-serif"'
        ' font-size="12" stroke="currentColor" fill="none">',
        f"<title>{escape(', '.join(picture.participants.values()))}</title>",
    ]
    for name, place in columns.items():
        told = picture.participants[name]
        half = _width((told,)) / 2 + 10
        lines.append(
            f'<rect x="{place - half:.1f}" y="2" width="{2 * half:.1f}" height="22" rx="4"/>'
        )
        lines += _texts((told,), place, 17)
        lines.append(
            f'<path d="M{place:.1f} 24V{bottom - 4:.1f}" stroke-opacity=".35" '
            'stroke-dasharray="2 3"/>'
        )
    lines += [line for _, step in drawn for line in step]
    return "\n".join([*lines, "</svg>"])


def _steps(picture: Picture, columns: dict[str, float]) -> Iterator[tuple[float, list[str]]]:
    """Yield each step's lowest point, and its lines."""
    low: float = HEAD_HEIGHT
    for step in picture.steps:
        low += ROW_GAP
        height = len(step.text) * LINE_HEIGHT
        if isinstance(step, Note):
            yield low + height + 8, _note(step, columns, low, height)
            low += height + 8
        elif step.start == step.end:
            yield low + max(height, 18), _loop(step, columns[step.start], low)
            low += max(height, 18)
        else:
            yield low + height + 4, _arrow(step, columns, low, height)
            low += height + 4


def _note(step: Note, columns: dict[str, float], low: float, height: float) -> list[str]:
    ends = columns[step.first], columns[step.last]
    half = max((max(ends) - min(ends)) / 2 + 12, _width(step.text) / 2 + 8)
    middle = sum(ends) / 2
    box = (
        f'<rect x="{middle - half:.1f}" y="{low:.1f}" width="{2 * half:.1f}" '
        f'height="{height + 6:.1f}" fill="currentColor" fill-opacity=".07" stroke-opacity=".35"/>'
    )
    return [box, *_texts(step.text, middle, low + 15)]


def _loop(step: Arrow, place: float, low: float) -> list[str]:
    line = f'<path d="M{place:.1f} {low:.1f}h{LOOP_WIDTH - 8}v14h-{LOOP_WIDTH - 10}"/>'
    texts = _texts(step.text, place + LOOP_WIDTH, low + 10, anchor="start")
    return [line, _head(place + 1, low + 14, -1), *texts]


def _arrow(step: Arrow, columns: dict[str, float], low: float, height: float) -> list[str]:
    start, end = columns[step.start], columns[step.end]
    dashes = ' stroke-dasharray="5 4"' if step.is_dashed else ""
    at = low + height
    line = f'<path d="M{start:.1f} {at:.1f}H{end:.1f}"{dashes}/>'
    way = 1 if end > start else -1
    return [line, _head(end, at, way), *_texts(step.text, (start + end) / 2, low + 11)]


def _head(place: float, at: float, way: int) -> str:
    back = place - 7 * way
    points = f"{place:.1f},{at:.1f} {back:.1f},{at - 4:.1f} {back:.1f},{at + 4:.1f}"
    return f'<polygon points="{points}" fill="currentColor" stroke="none"/>'


def _texts(text: tuple[str, ...], place: float, top: float, anchor: str = "middle") -> list[str]:
    return [
        f'<text x="{place:.1f}" y="{top + number * LINE_HEIGHT:.1f}" text-anchor="{anchor}" '
        f'fill="currentColor" stroke="none">{escape(line)}</text>'
        for number, line in enumerate(text)
    ]


def drawn(page: str) -> str:
    """A page with its pictures drawn."""
    return BLOCK.sub(lambda block: f'<div class="picture">\n{svg(block[1])}\n</div>\n', page)
