"""Tables, JSON, and what a command ends with."""

from __future__ import annotations

import errno
import json
import os

import click
from click.testing import CliRunner
from rich.console import Console

from jetstream_spark.command.output import CommandOutput, reports, table_of
from jetstream_spark.errors import ConnectorError


def shown(table) -> str:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_columns_without_values_are_left_out_and_numbers_are_grouped():
    rows = [{"name": "a[b]", "n": 1234567, "x": None}, {"name": "ok", "n": None, "x": None}]
    text = shown(table_of(["name", "n", "x", "y"], rows))
    assert text.split() == ["name", "n", "a[b]", "1,234,567", "ok"]
    assert shown(table_of(["version"], [{"version": 20260101}])).split()[-1] == "20260101"
    assert "yes" in shown(table_of(["is"], [{"is": True}]))


@click.command()
@click.option("--fail", is_flag=True)
@click.option("--errno", type=int)
@reports
def answer(output: CommandOutput, fail: bool, errno: int | None) -> None:
    if fail:
        raise ConnectorError("it is [broken].", "Mend it.")
    if errno is not None:
        raise OSError(errno, os.strerror(errno), "/a/file")
    output.say("a sentence")
    output.value({"a": 1})


@click.command()
@reports
def list_none(output: CommandOutput) -> None:
    output.table(["name"], [], "there is none")


def test_what_is_empty_is_said():
    assert CliRunner().invoke(list_none, []).output == "there is none\n"
    assert CliRunner().invoke(list_none, ["--json"]).output == ""


def test_json_is_all_that_is_printed():
    result = CliRunner().invoke(answer, ["--json"])
    assert (json.loads(result.stdout), result.stderr, result.exit_code) == ({"a": 1}, "", 0)
    result = CliRunner().invoke(answer, [])
    assert result.stdout == "a sentence\n"


def test_an_error_is_said_with_its_remedy():
    result = CliRunner().invoke(answer, ["--fail"])
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr == "[CONNECTOR_ERROR] it is [broken]. Mend it.\n"
    result = CliRunner().invoke(answer, ["--fail", "--json"])
    assert json.loads(result.stdout)["error"]["remedy"] == "Mend it."
    assert result.exit_code == 1


def test_a_file_that_fails_is_named_with_what_to_look_at():
    result = CliRunner().invoke(answer, ["--errno", str(errno.EACCES)])
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr.startswith(
        "[FILE] '/a/file' cannot be read or written: Permission denied."
    )
    assert "this user may use it" in result.stderr
    result = CliRunner().invoke(answer, ["--errno", str(errno.ENOSPC), "--json"])
    assert json.loads(result.stdout)["error"]["condition"] == "FILE"


def test_an_answer_that_nobody_reads_on_is_no_error_of_a_file():
    result = CliRunner().invoke(answer, ["--errno", str(errno.EPIPE)])
    assert (result.output, result.exit_code) == ("", 1)


ID, MOMENT = "c8721931-0ff5-4db4-99db-6ee1227fe1eb", "2026-11-21T10:00:00.123456789Z"
ROW = {"query": ID, "created": MOMENT, "a note": "of seven words, which is no name"}


@click.command()
@reports
def list_one(output: CommandOutput) -> None:
    output.table(list(ROW), [ROW])


def test_what_goes_into_a_file_is_a_line_for_each_row():
    result = CliRunner().invoke(list_one, env={"COLUMNS": "60"})
    title, row = result.stdout.splitlines()
    assert row.split(None, 2) == list(ROW.values())
    assert title.rstrip().split(None, 2) == list(ROW)


def test_a_narrow_terminal_folds_names_and_no_times():
    console = Console(width=70, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(table_of(list(ROW), [ROW]))
    assert MOMENT in captured.get()
    assert ID not in captured.get()
