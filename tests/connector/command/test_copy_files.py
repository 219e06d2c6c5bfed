"""Parquet files at either end."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetstream_spark.command.copy_files import ParquetDestination, ParquetOrigin
from jetstream_spark.command.copy_plan import CopyError


def rows(*numbers: int) -> pa.RecordBatch:
    data = [b"%d" % number for number in numbers]
    return pa.RecordBatch.from_pydict({"subject": ["a"] * len(data), "data": data})


def test_a_chunk_is_there_as_a_whole_or_not_at_all(tmp_path):
    target = ParquetDestination(tmp_path / "out")
    assert (target.kept_plan(), target.begin()) == (None, {})
    target.keep_plan("{}")
    assert target.write(0, [rows(1, 2), rows(3)]) == 3

    def broken():
        yield rows(4)
        raise ValueError("cut off")

    with pytest.raises(ValueError, match="cut off"):
        target.write(1, broken())
    names = [path.name for path in (tmp_path / "out").iterdir()]
    assert sorted(names) == ["_copy.json", "part-00000000.parquet"], "nothing is left over"
    (tmp_path / "out" / ".part-00000001.77777.tmp").touch()  # of a copier that was killed
    again = ParquetDestination(tmp_path / "out")
    assert (again.kept_plan(), again.done(), again.count({})) == ("{}", 1, 3)
    assert again.write(1, []) == 0
    assert (again.done(), again.count({})) == (2, 3)
    assert not list((tmp_path / "out").glob(".part*"))
    assert pq.read_table(tmp_path / "out")["data"].to_pylist() == [b"1", b"2", b"3"]


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(CopyError, match="is not empty"):
        ParquetDestination(tmp_path).begin()


def test_row_groups_are_chunks_in_the_order_of_files(tmp_path):
    for name, numbers in (("b", (4,)), ("a", (1, 2, 3))):
        table = pa.Table.from_batches([rows(*numbers)])
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=2)
    source = ParquetOrigin(tmp_path)
    plan = source.plan()
    assert (plan["chunks"], plan["rows"]) == (3, 4)
    read = [
        [value for batch in source.read(plan, chunk) for value in batch["data"].to_pylist()]
        for chunk in range(3)
    ]
    assert read == [[b"1", b"2"], [b"3"], [b"4"]]
    pq.write_table(pa.Table.from_batches([rows(5, 6)]), tmp_path / "b.parquet")
    with pytest.raises(CopyError, match="was changed since the copy was begun"):
        list(source.read(plan, 2))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "has no Parquet files"),
        (b"no", "cannot be read as Parquet"),
        ({"x": [1]}, "has no column"),
    ],
)
def test_what_cannot_be_copied(tmp_path, content, said):
    if isinstance(content, bytes):
        (tmp_path / "a.parquet").write_bytes(content)
    elif content:
        pq.write_table(pa.table(content), tmp_path / "a.parquet")
    with pytest.raises(CopyError, match=said):
        ParquetOrigin(tmp_path).plan()
