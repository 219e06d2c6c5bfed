"""Every example runs, and says in one line what a machine lacks."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import jetstream_spark

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
STORIES = sorted(path.stem for path in EXAMPLES.glob("[a-z]*.py"))
EXPECTED = {
    "bucket_to_table": "version 1 of the table has 3 prices, those of the bucket",
    "batch_write_and_read": "33 orders from Italy between sequences 100 and 199",
    "dead_letters": "after their way back there are 100 notes",
    "flights": "Every flight went in and came out once; the delays equal those of the file.",
    "foreach_batch": "3 batches of 7 pages, each written twice: 21 messages",
    "object_store": "11 pictures of 1680013 bytes, 0 of them damaged",
    "spark_connect": "1000 copies went there and back over Spark Connect",
    "stream_to_stream": "RAW has 1500 readings, CLEAN has 1500",
    "windowed_join": "60 of 90 orders were paid within ten minutes",
    "work_queue": "300 jobs of two queues are done, 0 are left",
}

# Its Spark is of another kind.
OF_THEIR_OWN = ["spark_connect"]


def run(example: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "DEMO_ROWS": "3000", "COLUMNS": "100", **environment}
    if Path(jetstream_spark.__file__).parent == ROOT / "jetstream_spark":
        # Spark finds formats by listing folders, which an editable install is not in.
        paths = [variables.get("PYTHONPATH", ""), str(ROOT), str(ROOT / "server")]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    # Not from the folder of the sources: Spark's Python processes would find those first, in which
    # nothing is compiled.
    command = [sys.executable, f"{example}.py"]
    return subprocess.run(
        command, env=variables, cwd=EXAMPLES, capture_output=True, text=True, timeout=560
    )


def complaint(result: subprocess.CompletedProcess[str]) -> str:
    """The one line that a failed example leaves."""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("WARNING: Using")]
    assert result.returncode == 1
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_every_example_is_in_the_list() -> None:
    listed = re.findall(r"^\| \[(\w+)\.py\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == STORIES


def test_every_example_is_expected_to_say_something() -> None:
    assert set(EXPECTED) == set(STORIES)


@pytest.mark.spark
@pytest.mark.genuine
@pytest.mark.timeout(600)  # a Spark session, on however busy a machine
@pytest.mark.parametrize("example", OF_THEIR_OWN)
def test_an_example_of_its_own_runs(example, genuine) -> None:
    result = run(example, JETSTREAM_URL=genuine.url)
    assert result.returncode == 0, result.stderr
    assert EXPECTED[example] in result.stdout


# One process, so that the JVM starts once. The examples make and stop their session in the words
# that they share; here it is the same for all of them, because each one anew has five Python
# processes start, and nothing of an example may run on when it stops it. The notebook and the
# README have sessions of their own. A notebook's cells are run one after another, and a cell's
# value is printed as notebooks show it.
_ONE_AFTER_ANOTHER = """
import ast, json, pathlib, runpy, sys
from pyspark.sql import SparkSession

def leave(session):
    assert not session.streams.active, "a query runs on"

stop, SparkSession.stop = SparkSession.stop, leave

def run_notebook(path):
    names = {"__name__": "__main__"}
    for cell in json.loads(pathlib.Path(path).read_text())["cells"]:
        if cell["cell_type"] == "code":
            body = ast.parse("".join(cell["source"])).body
            value = body.pop() if isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), path, "exec"), names)
            if value is not None:
                shown = eval(compile(ast.Expression(value.value), path, "eval"), names)
                if shown is not None:
                    print(repr(shown), flush=True)

examples = sys.argv[1:]
for example in examples:
    sys.argv = [example]
    print("== " + example, flush=True)
    if example.endswith(".ipynb"):  # the first behind those that share a session
        SparkSession.stop = stop
        SparkSession.builder.getOrCreate().stop()
        run_notebook(example)
    else:
        runpy.run_path(example, run_name="__main__")
"""


@pytest.fixture(scope="module")
def told(genuine, tmp_path_factory) -> dict[str, str]:
    """What each of the examples printed, the notebook's and the README's among them."""
    paths = [EXAMPLES / f"{story}.py" for story in STORIES if story not in OF_THEIR_OWN]
    readme = tmp_path_factory.mktemp("readme") / "readme.py"
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    readme.write_text(code)
    environment = {**os.environ, "JETSTREAM_URL": genuine.url, "COLUMNS": "100"}
    environment |= {"DEMO_ROWS": "3000", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYTHONPATH"] = os.pathsep.join((str(EXAMPLES), os.environ.get("PYTHONPATH", "")))
    environment["PYSPARK_PYTHON"] = sys.executable
    result = subprocess.run(
        [sys.executable, "-c", _ONE_AFTER_ANOTHER, *paths, EXAMPLES / "notebook.ipynb", readme],
        cwd=readme.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stderr
    sections = result.stdout.split("== ")[1:]
    return {Path(text.partition("\n")[0]).stem: text for text in sections}


@pytest.mark.spark
@pytest.mark.genuine
@pytest.mark.timeout(960)
@pytest.mark.parametrize("example", [story for story in STORIES if story not in OF_THEIR_OWN])
def test_an_example_runs(example, told) -> None:
    assert EXPECTED[example] in told[example]


@pytest.mark.spark
@pytest.mark.genuine
@pytest.mark.timeout(960)
def test_the_cells_of_the_notebook_run(told) -> None:
    assert "[]\n" in told["notebook"], "validate found something"
    assert "|     100|   21.5|" in told["notebook"]
    assert told["notebook"].count("|  100|") == 3


@pytest.mark.spark
@pytest.mark.genuine
@pytest.mark.timeout(960)
def test_the_readme_example_runs_as_pasted(told) -> None:
    assert told["readme"].count("|copies.") == 3


@pytest.mark.parametrize("example", STORIES)
def test_an_example_is_short(example) -> None:
    story = (EXAMPLES / f"{example}.py").read_text().splitlines()
    assert sum(bool(line.strip()) for line in story) < 80


def test_without_java(tmp_path) -> None:
    line = complaint(run("flights", PATH=str(tmp_path), JAVA_HOME=""))
    assert line.startswith("flights: Spark needs Java 17 or newer")
    assert "no `java` on the PATH" in line


def test_an_old_java(tmp_path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    line = complaint(run("flights", JAVA_HOME=str(tmp_path)))
    assert f"{java} says version 8" in line


def test_a_java_home_without_java(tmp_path) -> None:
    assert "cannot be run" in complaint(run("flights", JAVA_HOME=str(tmp_path)))


def test_a_missing_package(tmp_path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'rich' else found(name, *more)\n"
    )
    line = complaint(run("flights", PYTHONPATH=str(tmp_path)))
    assert "missing Python package: rich; run `make demo`" in line


def test_a_server_that_cannot_be_reached() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"nats://127.0.0.1:{held.getsockname()[1]}"
        line = complaint(run("flights", JETSTREAM_URL=url))
    assert line.startswith(f"flights: no JetStream at {url}: ")


def test_an_address_that_is_none() -> None:
    line = complaint(run("flights", JETSTREAM_URL="http://x:4222"))
    assert "JETSTREAM_URL=http://x:4222 is not usable" in line


def test_a_server_without_jetstream(start_genuine, tmp_path) -> None:
    config = tmp_path / "off.conf"
    config.write_text("accounts { A { users: [{user: a, password: a}] } }\nno_auth_user: a\n")
    server = start_genuine("-c", str(config))
    assert f"no JetStream at {server.url}" in complaint(run("flights", JETSTREAM_URL=server.url))


def test_a_port_in_use() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = str(held.getsockname()[1])
        line = complaint(run("flights", JETSTREAM_URL="", JETSTREAM_PORT=port))
    assert f"port {port} is in use; set JETSTREAM_PORT" in line
