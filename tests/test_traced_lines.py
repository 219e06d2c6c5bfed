"""Both ways to count the lines of Python count the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from tests import traced_lines


def several(count: int) -> Iterator[int]:
    for number in range(count):
        if number % 3:
            yield number


def anything() -> object:
    total = sum(several(1000))
    words = sorted(str(number) for number in range(total % 7, 50))
    try:
        raise KeyError(total)
    except KeyError:
        words.append("x")
    return [(a, b) for a, b in pairwise(words) if (lambda first: first > "2")(a)]


def pure() -> object:
    """Return what has lines of a file that counts, and more of one that does not."""
    names: dict[str, Callable[[], int]] = {}
    exec(compile("def f():\n    a = 1\n    b = 2\n    return a + b\n", "x/pure.py", "exec"), names)
    kept = []
    for _ in range(10):
        kept.append(names["f"]())
    return kept


@pytest.fixture(params=["in C", "in Python"])
def count(request) -> Callable[[Callable[[], object]], int]:
    """One after the other; the second one twice where there is no C compiler."""
    in_python = traced_lines._interpreted
    return in_python if request.param == "in Python" else traced_lines._compiled() or in_python


@pytest.mark.parametrize(
    ("act", "least", "most"), [(anything, 1500, 4000), (pure, 20, 30), (lambda: None, 1, 1)]
)
def test_the_count_is_the_same(count, act, least, most) -> None:
    lines = traced_lines._interpreted(act)
    assert least <= lines <= most, "how many depends on the version of Python"
    assert count(act) == lines


def test_an_error_goes_on_and_nothing_is_traced_after_it(count) -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        count(fail)
    assert sys.gettrace() is None


def test_who_traces_goes_on_after_it() -> None:
    def trace(*_: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        traced_lines.lines_of(anything)
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
