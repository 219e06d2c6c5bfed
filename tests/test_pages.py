"""Every page is in the site, every link leads somewhere, every block of code is run by a test."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import signal
import subprocess
import time
import tomllib
from codeop import CommandCompiler
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from jetstream_console.settings import read_settings
from jetstream_server.config import flags

from jetstream_spark.embedded import JetStreamServer
from tests.connector.command.conftest import MadeCheckpoint, line
from tests.pages import ROOT, blocks, called, control_of, name_of, pages
from tests.ports import free_ports
from tests.test_reference import headings

# What runs the blocks of a page. A picture is drawn; a text is no code.
HERE = "tests/test_pages.py"
WITH_SPARK = "tests/spark/test_pages.py"
RUN_BY = {
    ("README.md", "python"): "tests/test_examples.py",
    ("docs/clusters.md", "conf"): HERE,
    ("docs/clusters.md", "python"): WITH_SPARK,
    ("docs/command.md", "python"): "tests/test_command_docs.py",
    ("docs/command.md", "sh"): "tests/test_command_docs.py",
    ("docs/console.md", "sh"): HERE,
    ("docs/first-ten-minutes.md", "python"): WITH_SPARK,
    ("docs/first-ten-minutes.md", "sh"): HERE,
    ("docs/from-kafka.md", "python"): WITH_SPARK,
    ("docs/from-nats-py.md", "python"): WITH_SPARK,
    ("docs/from-nats-spark-connector.md", "python"): WITH_SPARK,
    ("docs/how-to/containers.md", "sh"): HERE,
    ("docs/how-to/containers.md", "yaml"): HERE,
    ("docs/how-to/credentials.md", "conf"): WITH_SPARK,
    ("docs/how-to/credentials.md", "python"): WITH_SPARK,
    ("docs/how-to/credentials.md", "sh"): WITH_SPARK,
    ("docs/how-to/exactly-once.md", "python"): WITH_SPARK,
    ("docs/how-to/growing.md", "conf"): HERE,
    ("docs/how-to/growing.md", "python"): HERE,
    ("docs/how-to/growing.md", "sh"): HERE,
    ("docs/how-to/replay.md", "python"): WITH_SPARK,
    ("docs/how-to/replay.md", "sh"): HERE,
    ("docs/how-to/schema-evolution.md", "python"): WITH_SPARK,
    ("docs/how-to/schema-evolution.md", "sh"): HERE,
    ("docs/how-to/tls.md", "conf"): WITH_SPARK,
    ("docs/how-to/tls.md", "python"): WITH_SPARK,
    ("docs/how-to/tls.md", "sh"): WITH_SPARK,
    ("docs/how-to/tuning.md", "python"): WITH_SPARK,
    ("docs/how-to/work-queues.md", "python"): WITH_SPARK,
    ("docs/internals.md", "mermaid"): "tests/test_site.py",
    ("docs/objects.md", "python"): WITH_SPARK,
    ("docs/options.md", "python"): WITH_SPARK,
    ("docs/server.md", "conf"): HERE,
    ("docs/sql.md", "sql"): "tests/spark/test_sql.py",
    ("docs/submit.md", "python"): "tests/spark/test_standalone.py",
    ("docs/submit.md", "sh"): "tests/spark/test_standalone.py",
    ("docs/tutorial.md", "python"): WITH_SPARK,
    ("docs/tutorial.md", "sh"): HERE,
}
GROWING = "docs/how-to/growing.md"
# Blocks without a language that leave out what only an operator has, or draw a tree.
FRAGMENTS = {"docs/server.md": 1}


def test_every_block_of_code_is_run_by_a_test():
    found = [(name_of(page), block.language) for page in pages() for block in blocks(name_of(page))]
    assert len(found) > 70
    assert {each for each in found if each[1] not in ("", "text")} == RUN_BY.keys()
    bare = [name for name, language in found if not language]
    assert {name: bare.count(name) for name in bare} == FRAGMENTS
    for (page, _), test in RUN_BY.items():
        name = page.removeprefix("docs/").removesuffix(".md").split("/")[-1]
        assert name.removesuffix("README").lower() in (ROOT / test).read_text().lower(), page


LINK = re.compile(r"(?<!!)\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(([^)\s]+)\)")


def _dead_links(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```|``[^`]+``|`[^`\n]+`", "", page.read_text(), flags=re.M | re.S)
    for target in LINK.findall(text):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        found = page.parent / path if path else page
        if not found.exists() or (anchor and anchor not in headings(found)):
            yield target


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_of_a_page_leads_somewhere(page):
    assert list(_dead_links(page)) == []


def test_a_dead_link_is_noticed(tmp_path):
    page = tmp_path / "page"
    page.write_text("# One\n\n[a](#one) [b](#two) [c](gone) [d](page#one) `[e](code)`\n")
    assert list(_dead_links(page)) == ["#two", "gone"]


def test_every_page_is_in_the_navigation():
    listed: set[Path] = set()
    for name in ("docs/index.md", "docs/reference/README.md"):
        found = re.findall(r"^(?:- |\| )\[[^\]]+\]\(([^)]+)\)", (ROOT / name).read_text(), re.M)
        listed |= {(ROOT / name).parent.joinpath(each).resolve() for each in found}
    assert {name_of(page) for page in pages() if page not in listed} == {"docs/index.md"}


TYPED = [page for page, language in RUN_BY if language == "python" and page != "README.md"]


@pytest.mark.parametrize("page", TYPED)
def test_blocks_can_be_typed_into_python(page):
    """Line by line, where an empty one ends what is indented."""
    for block in blocks(page, "python"):
        compiled, typed = CommandCompiler(), ""
        for number, text in enumerate(f"{block.text}\n".split("\n"), block.line):
            typed += text
            try:
                is_whole = compiled(typed, f"{page}:{number}", "single") is not None
            except SyntaxError as error:
                pytest.fail(f"{page}:{number}: {text!r}: {error}")
            typed = "" if is_whole else f"{typed}\n"
        assert not typed.strip(), (page, block.line)


# --- commands -------------------------------------------------------------------------------


def is_program(text: str) -> bool:
    """Tell whether a block is more than lines that one types one after another."""
    return "\nfor " in text


LINES = [
    (page, " ".join(line.split()))
    for page, language in RUN_BY
    if language == "sh" and RUN_BY[page, language] == HERE
    for block in blocks(page, language)
    if not is_program(block.text)
    for line in block.text.replace("\\\n", " ").splitlines()
]


@pytest.mark.parametrize(("page", "text"), LINES, ids=[text[:40] for _, text in LINES])
def test_a_command_of_a_page_is_one_that_there_is(page, text):
    program, *words = shlex.split(text)
    check = {
        "docker": _check_files,
        "jetstream-console": read_settings,
        "jetstream-server": _check_flags,
        "jetstream-spark": lambda words: None,  # run below
        "kubectl": lambda words: None,  # what it is given is looked at below
        "nats-server": lambda words: None,  # likewise
        "pip": _check_installed,
        "spark-submit": lambda words: None,  # its settings are Spark's, its file is the reader's
    }
    check[program](words)


# Paragraphs of four spaces, outside fences: of these, the lines of programs that are known here.
INDENTED = [
    (name_of(page), text.strip())
    for page in [*pages(), *(ROOT / each / "README.md" for each in ("jetstream_spark", "server"))]
    for found in re.findall(
        r"^\n((?:    .+\n)+)",
        re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S),
        re.M,
    )
    for text in found.splitlines()
]


def test_a_command_beside_the_fences_is_one_that_there_is():
    check = {
        "cd": lambda words: _check_there(words[0]),
        "jetstream-server": _check_flags,
        "make": _check_targets,
        "pip": _check_installed,
        ".venv/bin/pytest": lambda words: _check_there(words[0]),
        "python": _check_program,
    }
    checked = []
    for page, text in INDENTED:
        for words in _commands(text):
            if words and words[0] in check:
                check[words[0]](words[1:])
                checked.append((page, words[0]))
    assert {"README.md", "CONTRIBUTING.md", "docs/server.md"} <= {page for page, _ in checked}
    assert {program for _, program in checked} == check.keys()


def _commands(text: str) -> Iterator[list[str]]:
    """The commands of a line, without what is said about them."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return  # no line of a shell
    for are_between, several in itertools.groupby(words, lambda word: word == "&&"):
        if not are_between:
            yield list(several)


def _check_there(name: str) -> None:
    assert (ROOT / name).exists(), name


def _check_targets(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        assert "=" in word or re.search(rf"^{re.escape(word)}:", makefile, re.M), word


def _check_program(words: list[str]) -> None:
    """Have the module or the file that Python is given; examples are run from their folder."""
    if words[0] == "-m":
        assert find_spec(words[1]), words
    else:
        assert any((folder / words[0]).is_file() for folder in (ROOT, ROOT / "examples")), words


def _check_files(words: list[str]) -> None:
    """Have the files that Docker is given."""
    for before, name in itertools.pairwise(words):
        if before == "-f":
            assert (ROOT / name).is_file(), name


def _check_flags(words: list[str]) -> None:
    """Have the bundled server understand its flags."""
    assert isinstance(flags.parse(words, "test"), flags.Flags)


def _check_installed(words: list[str]) -> None:
    """Have the extras that pip is asked for."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for word in words[1:]:
        found = re.fullmatch(r"jetstream-(?:server|spark(?:\[(\w+)\])?)", word)
        assert found or word in ("fastavro", "nats-py"), word
        if found and found[1]:
            assert found[1] in extras["optional-dependencies"]


@pytest.fixture(scope="module")
def server() -> Iterator[JetStreamServer]:
    """The bundled server."""
    with JetStreamServer() as server:
        yield server


def test_a_query_is_set_back_as_the_page_on_replay_says(server, tmp_path):
    control = control_of(server.url)
    control.request("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
    for _ in range(3):
        control.request_message("orders.de", b"an order")
    made = MadeCheckpoint(tmp_path / "checkpoint")
    made.add(0, line(control.stream_state("ORDERS").created, ORDERS=4))
    texts = [text for page, text in LINES if page == "docs/how-to/replay.md"]
    assert len(texts) == 3
    for text in texts:
        called(text, CHECKPOINT=str(made.folder), URL=server.url)
    assert '"next":1' in (made.folder / "offsets" / "1").read_text().replace(" ", "")


@pytest.fixture
def three_servers(genuine_binary, tmp_path) -> Iterator[str]:
    """What the page on growing has one start, on free ports; the address of the first server."""
    [text] = [each.text for each in blocks(GROWING, "sh") if is_program(each.text)]
    ports = free_ports(6)
    for number in (1, 2, 3):
        text = text.replace(f"127.0.0.1:623{number}", f"127.0.0.1:{ports[number + 2]}")
    text = text.replace("423$n", "${ports[n - 1]}").replace("623$n", "${ports[n + 2]}")
    path = f"{Path(genuine_binary).parent}:{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-euc", f"ports=({' '.join(map(str, ports))})\n{text}wait"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        start_new_session=True,
    )
    yield f"nats://127.0.0.1:{ports[0]}"
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()


@pytest.mark.timeout(300)
def test_messages_move_to_another_server_as_the_page_on_growing_says(server, three_servers):
    [block] = blocks(GROWING, "python")
    text = block.text.replace("nats://127.0.0.1:4231", three_servers)
    new = control_of(three_servers, requestTimeout="2s", outageTimeout="60s")
    deadline = time.monotonic() + 120
    # They take some seconds to elect a leader, as the page says; a reader tries again.
    while True:
        with contextlib.suppress(Exception):
            exec(compile(text, GROWING, "exec"), {})
            break
        assert time.monotonic() < deadline, "the three servers do not make a stream"
    assert new.request("STREAM.INFO.ORDERS")["config"]["num_replicas"] == 3
    old = control_of(server.url)
    old.request("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
    before = old.stream_state("ORDERS").messages
    for number in range(5):
        old.request_message("orders.fr", b"%d" % number)
    [copy] = [each for _, each in LINES if each.startswith("jetstream-spark copy")]
    called(copy, OLD=server.url, NEW=three_servers)
    assert new.stream_state("ORDERS").messages == before + 5


# --- files ----------------------------------------------------------------------------------


def checked_here(text: str, folder: Path) -> None:
    """Have the bundled server check a configuration."""
    (folder / "server.conf").write_text(text)
    outcome = flags.check(flags.Flags(config=str(folder / "server.conf"), is_check=True), {})
    assert outcome.code == 0, outcome.error


@pytest.mark.parametrize("page", ["docs/clusters.md", "docs/server.md"])
def test_configurations_of_a_page_are_right(page, genuine_binary, tmp_path):
    found = list(blocks(page, "conf"))
    assert found
    for block in found:
        checked_here(block.text, tmp_path)
        _checked_by_genuine(genuine_binary, tmp_path / "server.conf")


def test_the_configuration_of_a_cluster_is_right(genuine_binary, tmp_path):
    [block] = blocks(GROWING, "conf")
    (tmp_path / "server.conf").write_text(block.text)
    assert (GROWING, "nats-server -c server.conf") in LINES
    _checked_by_genuine(genuine_binary, tmp_path / "server.conf")


def _checked_by_genuine(binary: str, path: Path) -> None:
    done = subprocess.run([binary, "-t", "-c", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_the_page_on_containers_deploys_fits_together(tmp_path):
    [block] = blocks("docs/how-to/containers.md", "yaml")
    parts = {part["kind"]: part for part in yaml.safe_load_all(block.text)}
    text = parts["ConfigMap"]["data"]["server.conf"]
    checked_here(text.replace('"/data"', f'"{tmp_path}"'), tmp_path)
    options = flags.resolve(flags.Flags(config=str(tmp_path / "server.conf")), {})
    ports = {options.port, options.http_port}
    assert {port["port"] for port in parts["Service"]["spec"]["ports"]} == ports

    [container] = parts["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert parts["StatefulSet"]["spec"]["replicas"] == 1
    assert {port["containerPort"] for port in container["ports"]} == ports
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert 'store_dir: "/data"' in text and mounts["data"] == "/data"
    parsed = flags.parse(container["args"], "test")
    assert isinstance(parsed, flags.Flags)
    assert Path(parsed.config).parent.as_posix() == mounts["config"]
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": options.http_port}
    assert container["livenessProbe"]["tcpSocket"]["port"] == options.port


def test_the_job_of_the_page_on_containers_has_its_password_where_it_looks():
    page = "docs/how-to/containers.md"
    lines = [text for name, text in LINES if name == page]
    [created] = [text for text in lines if text.startswith("kubectl create secret")]
    made = re.search(r"generic (\w+) --from-file=(\w+)$", created)
    assert made
    [job] = [text for text in lines if text.startswith("spark-submit")]
    mounts = re.findall(r"spark\.kubernetes\.(\w+)\.secrets\.(\w+)=(\S+)", job)
    assert {who for who, _, _ in mounts} == {"driver", "executor"}
    [(name, folder)] = {(name, folder) for _, name, folder in mounts}
    assert name == made[1]
    assert f"password=file:{folder}/{made[2]}`" in (ROOT / page).read_text()
    # A service account's token is below it, where nothing can be mounted any more.
    assert not folder.startswith(("/run/secrets", "/var/run/secrets"))
