"""The services of compose.yaml fit each other and the images; no engine is needed to see that."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
SERVICES = COMPOSE["services"]
CONFIG = (ROOT / "docker/server.conf").read_text()


def dockerfile(service: str) -> str:
    build = SERVICES[service]["build"]
    assert (ROOT / "docker" / build["context"]).resolve() == ROOT
    return (ROOT / build["dockerfile"]).read_text()


def test_the_demo_finds_the_server_by_its_service():
    url = urlsplit(SERVICES["demo"]["environment"]["JETSTREAM_URL"])
    assert url.hostname in SERVICES
    assert f"EXPOSE {url.port} " in dockerfile(url.hostname)
    assert re.search(rf"^(listen|port): .*\b{url.port}\b", CONFIG, re.M)
    assert 'os.environ.get("JETSTREAM_URL"' in (ROOT / "examples/_demo.py").read_text()


def test_the_demo_waits_for_a_server_whose_health_is_known():
    [(name, condition)] = SERVICES["demo"]["depends_on"].items()
    assert condition == {"condition": "service_healthy"}
    assert "HEALTHCHECK" in dockerfile(name)
    [port] = set(re.findall(r"127\.0\.0\.1:(\d+)/healthz", dockerfile(name)))
    assert re.search(rf"^http(_port)?: .*\b{port}\b", CONFIG, re.M)


def test_streams_are_on_a_volume():
    [volume] = SERVICES["jetstream"]["volumes"]
    name, folder = volume.split(":")
    assert name in COMPOSE["volumes"]
    assert f"VOLUME {folder}\n" in dockerfile("jetstream")
    assert folder in CONFIG


def test_what_git_ignores_is_not_sent_to_the_engine():
    """Environments alone are gigabytes, and what was compiled here is of no use there."""
    ignored = (ROOT / ".gitignore").read_text().split()
    sent = set((ROOT / ".dockerignore").read_text().splitlines())
    # Without stars before it, Docker looks for a name in the uppermost folder only.
    wanted = {re.sub(r"^(!?)(?:\*\*/)?(.*?)/?$", r"\1**/\2", line) for line in ignored}
    assert wanted - sent == set()


def test_what_the_images_take_from_the_tree_is_there():
    for service in SERVICES:
        for line in re.findall(r"^COPY ([^-].*)$", dockerfile(service), re.M):
            source = line.split()[0]
            assert (ROOT / source).exists(), (service, line)
