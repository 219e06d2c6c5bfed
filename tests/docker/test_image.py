"""The image of the bundled server: built, started, used by a client, its streams kept."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TAG = "jetstream-spark-server:test"


def imported_by_server() -> set[str]:
    """Top-level packages that the server imports and Python does not bring."""
    found = set()
    for source in (ROOT / "server").rglob("*.py"):
        for name in re.findall(r"^\s*(?:from|import) ([a-z_0-9]+)", source.read_text(), re.M):
            found.add(name)
    return found - set(sys.stdlib_module_names) - {"jetstream_server", "cpython", "libc"}


def required() -> set[str]:
    lines = (ROOT / "docker" / "server-requirements.txt").read_text().splitlines()
    names = (re.match(r"[A-Za-z0-9-]+", line) for line in lines)
    return {match[0].replace("-", "_") for match in names if match}


def test_the_image_has_what_the_server_imports() -> None:
    known = {name for name in imported_by_server() if (ROOT / "server" / name).exists() is False}
    installed = {name for name in known if _is_distribution(name)}
    assert installed <= required()


def test_the_image_asks_for_what_the_project_asks_for() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = {one.split(";")[0] for one in settings["project"]["dependencies"]}
    lines = (ROOT / "docker" / "server-requirements.txt").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} <= declared


def test_the_image_asks_for_nothing_that_the_server_does_without() -> None:
    read_by_zoneinfo = {"tzdata"}
    assert required() <= imported_by_server() | read_by_zoneinfo


def _is_distribution(name: str) -> bool:
    from importlib.metadata import packages_distributions

    return name in packages_distributions()


@pytest.fixture(scope="module")
def engine() -> object:
    """A Docker client; only for want of an engine are tests skipped."""
    import docker

    try:
        client = docker.from_env()
        client.ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"no Docker engine: {str(error)[:80]}")
    return client


@pytest.fixture(scope="module")
def image(engine) -> str:
    """The image, built from this tree."""
    engine.images.build(path=str(ROOT), dockerfile="docker/Dockerfile", tag=TAG, rm=True)
    return TAG


@pytest.fixture
def container(image) -> Iterator[object]:
    """A running server."""
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.waiting_utils import wait_for_logs

    with DockerContainer(image).with_exposed_ports(4222, 8222) as started:
        wait_for_logs(started, "Server is ready", timeout=30)
        yield started


@pytest.mark.docker
def test_streams_survive_a_restart_of_the_container(container) -> None:
    from jetstream_spark.client.blocking import Blocking, this_host
    from jetstream_spark.client.control import Control
    from jetstream_spark.options import SinkOptions

    def control() -> Blocking:
        url = f"nats://{container.get_container_host_ip()}:{container.get_exposed_port(4222)}"
        return Blocking(
            Control(this_host(), SinkOptions.parse({"servers": url}).connection, "test")
        )

    first = control()
    first.request("STREAM.CREATE.KEPT", {"name": "KEPT", "subjects": ["kept"]})
    for number in range(100):
        first.request_message("kept", b"%d" % number)
    container.get_wrapped_container().restart()
    assert control().stream_state("KEPT").messages == 100


@pytest.mark.docker
def test_the_server_does_not_run_as_root(container) -> None:
    code, output = container.exec(["id", "-u"])
    assert (code, output.strip()) == (0, b"1000")
