"""Options of a job from the command line and from a file."""

from __future__ import annotations

import click
import pytest

from jetstream_spark.command.given_options import connection_of, read_options
from jetstream_spark.errors import OptionsError
from jetstream_spark.options.format_options import SINK_KEYS, SINK_ONLY, SOURCE_ONLY


def test_those_of_the_command_line_come_on_top(tmp_path):
    file = tmp_path / "job.json"
    file.write_text('{"servers": "a:1", "includeHeaders": true, "fetchBatch": 7}')
    found = read_options(["servers=b:2", "subjects=a=b"], file)
    assert found == {
        "servers": "b:2", "includeHeaders": "true", "fetchBatch": "7", "subjects": "a=b",
    }  # fmt: skip


@pytest.mark.parametrize("pair", ["hunter2", "=hunter2", " =hunter2"])
def test_what_has_no_key_is_not_repeated(pair):
    with pytest.raises(click.UsageError) as told:
        read_options([pair], None)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize("content", ["[1]", "no", "[" * 100_000, '"text"'])
def test_a_file_that_is_no_object(tmp_path, content):
    file = tmp_path / "job.json"
    file.write_text(content)
    with pytest.raises(click.UsageError, match="is not a JSON object of options"):
        read_options([], file)


def test_the_connection_is_taken_out_of_a_job_of_either_side():
    job = {"servers": "a:1", "stream": "S", "fetchBatch": "7", "ACKTIMEOUT": "3s", "User": "u"}
    found = connection_of(job | {"password": "p"})
    assert (found.user, found.outage_timeout_s) == ("u", 5.0)
    with pytest.raises(OptionsError, match="servers"):
        connection_of({"stream": "S"})


def test_every_option_of_the_connection_is_known_as_one():
    others = {*SOURCE_ONLY, *SINK_ONLY, "stream", "bucket", "objectStore", "maxObjectSize"}
    for key in set(SINK_KEYS) - others:
        with pytest.raises(OptionsError, match="servers"):  # alone it is not enough
            connection_of({key: "1"} if key != "servers" else {})
        if key != "servers":
            with pytest.raises(OptionsError) as told:
                connection_of({key: ""})
            assert any(key in problem for problem in told.value.problems), key
