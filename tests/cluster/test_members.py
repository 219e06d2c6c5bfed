"""Members of a cluster: those learned from others, those that leave, and where JetStream is."""

from __future__ import annotations

import signal
import time

import pytest

from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import Flow
from jetstream_spark.errors import ConnectionFailedError
from jetstream_spark.options.format_options import SinkOptions

pytestmark = [pytest.mark.genuine, pytest.mark.timeout(600)]


def connection(url: str, **options: str):
    named = {"servers": url, "subject": "any", "outageTimeout": "20s", "requestTimeout": "2s"}
    return SinkOptions.parse(named | options).connection


def address(server) -> str:
    return server.url.removeprefix("nats://")


def test_one_given_address_is_enough_when_its_server_dies(cluster):
    """The others were named by it; `ignoreDiscoveredServers` leaves it at what is given."""
    first, *others = cluster.servers
    options = connection(first.url)
    deaf = connection(first.url, ignoreDiscoveredServers="true")
    cluster.until(lambda: len(learned(options)) == 2)
    assert learned(deaf) == set()
    first.kill()
    try:
        answer = Blocking(Control(this_host(), options, "test")).request("INFO")
        assert "streams" in answer
        with pytest.raises(ConnectionFailedError):
            run(Flow.connect(this_host(), deaf, "test"))
    finally:
        first.start()
    cluster.rest()
    cluster.until(lambda: learned(options) == {address(one) for one in others})


def learned(options) -> set[str]:
    """What a new connection to the first server leaves behind."""
    run(Flow.connect(this_host(), options, "test")).close()
    found = this_host().learned.get(options)
    return {str(one) for one in found.servers} if found else set()


def test_a_server_in_lame_duck_is_left_before_it_cuts_its_clients(start_cluster, tmp_path, work):
    """Without ids nothing could be sent again, so a cut would end the write.

    A busy machine takes half a second for a beat: each has to come within the grace period.
    """
    config = tmp_path / "duck.conf"
    config.write_text('lame_duck_duration: "30s"\nlame_duck_grace_period: "3s"\n')
    cluster = start_cluster(str(config))
    cluster.create("DUCK")
    cluster.publish("DUCK", 20_000)
    leaving = cluster.servers[0]
    unrepeatable = {"dedupe": "none", "ledger": "none", "maxInFlight": "10"}
    writing = work.Writing(
        cluster, "DUCK", 20, url=leaving.url, requestTimeout="30s", **unrepeatable
    )
    reading = work.Reading(cluster, "DUCK", 20_000)
    writing()

    def slowly():
        leaving.process.send_signal(signal.SIGUSR2)
        until = time.monotonic() + 4
        beats = 0
        while time.monotonic() < until or beats < 10:
            time.sleep(0.02)
            reading()
            beats += 1
            yield

    writing(slowly())
    assert leaving.process.wait(60) == 0
    found = sorted(work.everything_in(cluster, "DUCK")[20_000:])
    assert found == sorted(writing.numbers) and len(found) > 200
    for server in cluster.servers:
        server.kill()


ACCOUNTS = """
accounts {
  HOME {
    jetstream: enabled
    users: [ {user: home, password: p} ]
    exports: [
      {service: "$JS.API.>", response: stream}
      {service: "data.>", response: singleton}
      {stream: "deliver.>"}
    ]
  }
  GUEST {
    users: [ {user: guest, password: p} ]
    imports: [
      {service: {account: HOME, subject: "$JS.API.>"}, to: "home.API.>"}
      {service: {account: HOME, subject: "data.>"}, to: "data.>"}
    ]
  }
}
"""


@pytest.mark.parametrize("mode", ["consumer", "direct"])
def test_an_imported_api(start_genuine, tmp_path, work, mode):
    """Streams of another account are read and written under the prefix of the import."""
    config = tmp_path / "accounts.conf"
    config.write_text(ACCOUNTS)
    server = start_genuine("-c", str(config))
    home = Account(server.url, user="home", password="p")
    home.control.request(
        "STREAM.CREATE.DATA", {"name": "DATA", "subjects": ["data.>"], "allow_direct": True}
    )
    guest = {"user": "guest", "password": "p", "apiPrefix": "home.API"}
    writing = work.Writing(home, "DATA", 300, subject="data.a", ledger="none", **guest)
    writing()
    reading = work.Reading(home, "DATA", 300, fetchMode=mode, **guest)
    reading()


def test_a_domain(start_genuine, tmp_path, work):
    config = tmp_path / "domain.conf"
    config.write_text("jetstream { domain: hub }\n")
    server = start_genuine("-c", str(config))
    hub = Account(server.url, domain="hub")
    hub.control.request(
        "STREAM.CREATE.DATA", {"name": "DATA", "subjects": ["DATA.>"], "allow_direct": True}
    )
    writing = work.Writing(hub, "DATA", 300, domain="hub")
    writing()
    for mode in ("consumer", "direct"):
        work.Reading(hub, "DATA", 300, fetchMode=mode, domain="hub")()


class Account:
    """What work needs to know of a server with one account's rights."""

    def __init__(self, url: str, **options: str) -> None:
        self.url = url
        self.control = Blocking(Control(this_host(), connection(url, **options), "test"))

    def info(self, stream: str) -> dict:
        return self.control.request(f"STREAM.INFO.{stream}")
