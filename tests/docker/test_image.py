"""The images of the server and of the demo: built, started, used, streams kept.

Set JETSTREAM_IMAGE and JETSTREAM_DEMO_IMAGE to test images that are there already, as
docker/without_docker.sh does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
TAG = "jetstream-server:test"
DEMO_TAG = "jetstream-demo:test"
BASE = "python:3.12-slim"
ADDED_BYTES_MAX = 120_000_000


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


@pytest.mark.docker
def test_its_health_is_that_of_the_server(container) -> None:
    """The check runs by hand: not every engine has timers."""
    kind, *check = container.get_wrapped_container().attrs["Config"]["Healthcheck"]["Test"]
    assert kind == "CMD"
    assert container.exec(check)[0] == 0
    elsewhere = [word.replace("8222", "8223") for word in check]
    assert container.exec(elsewhere)[0] != 0


@pytest.mark.docker
def test_what_it_adds_to_its_base_is_little(engine, image) -> None:
    size, base = (engine.images.get(name).attrs["Size"] for name in (image, BASE))
    print(f"{(size - base) / 1e6:.0f} MB more than the base's {base / 1e6:.0f}")
    assert 0 < size - base < ADDED_BYTES_MAX


@pytest.fixture(scope="module")
def demo_image(engine) -> str:
    """The demo's image, built from this tree unless one is named."""
    if named := os.environ.get("JETSTREAM_DEMO_IMAGE"):
        return named
    engine.images.build(path=str(ROOT), dockerfile="docker/demo.Dockerfile", tag=DEMO_TAG, rm=True)
    return DEMO_TAG


@pytest.fixture
def service(engine, image) -> Iterator[dict[str, object]]:
    """A running server, and what a container needs to reach it by the name in compose.yaml.

    The name is told: not every engine has a name server.
    """
    network = engine.networks.create("jetstream-test")
    server = None
    try:
        server = engine.containers.run(image, detach=True, network=network.name, name="jetstream")
        # compose.yaml waits for its health, which not every engine looks after.
        assert any(b"Server is ready" in line for line in server.logs(stream=True, follow=True))
        server.reload()
        address = server.attrs["NetworkSettings"]["Networks"][network.name]["IPAddress"]
        yield {"network": network.name, "extra_hosts": {"jetstream": address}, "remove": True}
    finally:
        if server is not None:
            server.remove(force=True)
        network.remove()


@pytest.mark.docker
def test_another_container_of_its_network_reaches_it(engine, image, service) -> None:
    program = "import socket; print(socket.create_connection(('jetstream', 4222), 30).recv(5))"
    said = engine.containers.run(image, ["-c", program], entrypoint="python", **service)
    assert said.strip() == b"b'INFO '"


@pytest.mark.docker
@pytest.mark.timeout(900)
def test_the_demo_does_its_job_beside_it(engine, demo_image, service) -> None:
    """As compose.yaml starts it, once the server is healthy."""
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    environment = services["demo"]["environment"]
    told = engine.containers.run(demo_image, environment=environment, **service).decode()
    print(told)
    assert "JetStream at nats://jetstream:4222\n" in told
    assert "Every flight went in and came out once" in told


@pytest.mark.docker
def test_the_demo_has_compiled_kernels_and_is_not_root(engine, demo_image) -> None:
    program = (
        "import os, jetstream_spark as j; "
        "print(os.getuid(), *set(j.__version_info__['kernels'].values()))"
    )
    said = engine.containers.run(demo_image, ["python", "-c", program], remove=True)
    assert said.decode().split() == ["1000", "compiled"]
