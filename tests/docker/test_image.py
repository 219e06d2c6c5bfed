"""The image of the bundled server: built, started, used by a client, its streams kept.

Set JETSTREAM_IMAGE to test an image that is there already, as docker/without_docker.sh does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TAG = "jetstream-server:test"


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
    """The image, built from this tree unless one is named."""
    if named := os.environ.get("JETSTREAM_IMAGE"):
        return named
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
    from jetstream_spark.options.format_options import SinkOptions

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
