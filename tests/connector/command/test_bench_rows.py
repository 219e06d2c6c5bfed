"""What is measured, as far as it needs no Spark; with one in tests/spark/test_command.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from jetstream_spark.command.bench_rows import BenchRows, Load
from jetstream_spark.command.bench_streams import BenchError

LATE = """Query [id = 1] terminated with exception: Python worker failed to connect back.
SQLSTATE: XXKST"""


class Broken:
    """A session whose queries end with an error."""

    def __init__(self, text: str) -> None:
        self._text = text

    def range(self, *bounds: int) -> object:
        raise RuntimeError(self._text)


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        (LATE, "batch write failed: Query [id = 1] terminated", "when it has less to do"),
        ("a\nb\nc\nd", "batch write failed: a b c", "jetstream-spark doctor"),
        ("at x.Y\nFetchError: [GONE] it is gone.\nat z", "failed: [GONE] it is gone.", "doctor"),
    ],
)
def test_an_error_of_spark_is_said_in_a_line_with_what_to_do(text, what, remedy):
    streams = SimpleNamespace(source="a", target="b", clear=lambda name: None)
    rows = BenchRows(Broken(text), streams, {})
    with pytest.raises(BenchError) as caught:
        list(rows.measure(Load(1, 1, 1)))
    assert what in caught.value.what and "\n" not in caught.value.what
    assert remedy in caught.value.remedy
