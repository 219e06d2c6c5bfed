"""Monitoring on both servers: the same pages with the same fields, over HTTP and over NATS.

Both servers see the same few clients, streams and consumers; then every page is asked for with
its options. Compared are statuses, content types, and the shapes of what is answered: names of
fields, their order, types of their values. Numbers are not: they depend on when one looks.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytestmark = pytest.mark.genuine

CONFIG = """
http: "127.0.0.1:-1"
server_name: one, server_tags: [blue, red], server_metadata: {place: here}
jetstream: {max_mem: 64MB, max_file: 64MB, sync_interval: always}
no_auth_user: a
system_account: SYS
accounts: {
  A: {
    jetstream: enabled
    users: [{user: a, password: x}]
    exports: [{stream: "news.>"}, {service: ask}]
  }
  B: {
    users: [{user: b, password: x}]
    imports: [{stream: {account: A, subject: "news.>"}, prefix: far}
              {service: {account: A, subject: ask}, to: tell}]
    mappings: {from: to}
  }
  SYS: {users: [{user: sys, password: x}]}
}
"""
USER = '{"verbose":false,"user":"%s","pass":"x","name":"%s","lang":"raw","version":"1"}'
SETUP = """
STREAM.CREATE.S {"name":"S","subjects":["s.>"]}
STREAM.CREATE.M {"name":"M","mirror":{"name":"S"}}
CONSUMER.CREATE.S.c {"stream_name":"S","config":{"durable_name":"c","ack_policy":"explicit"}}
"""

_PAGES = """
/ /nope /varz /varz/ /varz?callback=f
/connz /connz?subs=1 /connz?subs=detail /connz?auth=1 /connz?state=closed /connz?state=any
/connz?state=x /connz?sort=nope /connz?sort=stop /connz?sort=bytes_to /connz?cid=99 /connz?acc=B
/connz?acc=none /connz?user=b&auth=1 /connz?offset=1&limit=1 /connz?limit=x /connz?subs=x
/routez /routez?subs=1 /gatewayz /gatewayz?accs=1 /leafz /leafz?subs=1
/subsz /subsz?subs=1 /subscriptionsz /subsz?test=s.a&subs=1 /subsz?test=a..b /subsz?acc=B&subs=1
/accountz /accountz?acc=A /accountz?acc=B /accountz?acc=SYS /accountz?acc=none
/accstatz /accstatz?unused=1 /accstatz?unused=x
/jsz /jsz?accounts=1 /jsz?streams=1 /jsz?consumers=1&config=1 /jsz?acc=A&streams=1&config=1
/jsz?acc=none /jsz?raft=1&streams=1 /jsz?leader-only=1 /jsz?stream-leader-only=1&streams=1
/jsz?direct-consumers=1&streams=1&config=1 /jsz?direct-consumers=1&consumers=1 /jsz?limit=x
/healthz /healthz?js-enabled=true /healthz?js-enabled-only=true /healthz?js-server-only=true
/healthz?js-meta-only=1 /healthz?account=A&stream=S /healthz?account=A&stream=none
/healthz?account=A&stream=S&consumer=c /healthz?account=A&stream=S&consumer=none
/healthz?account=none /healthz?stream=S /healthz?consumer=c&account=A /healthz?details=true
/healthz?details=true&account=none
/expvarz /ipqueuesz /ipqueuesz?all=1 /ipqueuesz?queues=JetStream
/raftz /raftz?acc=A /raftz?group=x /stacksz /debug/vars /profilez
"""
PAGES = _PAGES.split()

SERVICES = """
SERVER.PING
SERVER.PING.IDZ
SERVER.PING.STATSZ
SERVER.PING.VARZ
SERVER.PING.CONNZ
SERVER.PING.CONNZ {"auth":true,"subscriptions_detail":true}
SERVER.PING.CONNZ {"state":1}
SERVER.PING.CONNZ {"acc":"A","filter_subject":"foo.x"}
SERVER.PING.CONNZ {"filter_subject":"foo.x"}
SERVER.PING.CONNZ {"sort":"nope"}
SERVER.PING.CONNZ {nope
SERVER.PING.SUBSZ
SERVER.PING.SUBSZ {"subscriptions":true}
SERVER.PING.ROUTEZ
SERVER.PING.GATEWAYZ
SERVER.PING.LEAFZ
SERVER.PING.ACCOUNTZ
SERVER.PING.ACCOUNTZ {"account":"B"}
SERVER.PING.ACCOUNTZ {"account":"none"}
SERVER.PING.JSZ
SERVER.PING.JSZ {"streams":true,"consumer":true,"config":true,"raft":true}
SERVER.PING.HEALTHZ
SERVER.PING.HEALTHZ {"account":"none"}
SERVER.PING.EXPVARZ
SERVER.PING.IPQUEUESZ
SERVER.PING.IPQUEUESZ {"all":true}
SERVER.PING.RAFTZ
ACCOUNT.A.CONNZ
ACCOUNT.A.SUBSZ
ACCOUNT.A.LEAFZ
ACCOUNT.A.JSZ
ACCOUNT.A.JSZ {"streams":true}
ACCOUNT.A.INFO
ACCOUNT.B.INFO
ACCOUNT.A.STATZ
ACCOUNT.A.CONNS
ACCOUNT.none.INFO
ACCOUNT.PING.STATZ
ACCOUNT.PING.STATZ {"accounts":["A"]}
ACCOUNT.PING.STATZ {"accounts":["none"],"include_unused":true}
ACCOUNT.PING.CONNZ
""".strip().splitlines()
OWN = ["SERVER.PING.CONNZ", "ACCOUNT.PING.CONNZ", "ACCOUNT.PING.STATZ", "USER.INFO"]


# Pages and requests whose answers may differ, and why.
DIFFERENT = {
    "/": "the links of the genuine page are looked for",
    "/stacksz": "Python's stacks, and as text, which they are",
    "/ipqueuesz": "queues between threads; none are here",
    "/ipqueuesz?all=1": "the same",
    "/ipqueuesz?queues=JetStream": "the same",
    "SERVER.PING.IPQUEUESZ": "the same",
    'SERVER.PING.IPQUEUESZ {"all":true}': "the same",
    'SERVER.PING.CONNZ {"filter_subject":"foo.x"}': "deviations.md: works without an account",
    "ACCOUNT.PING.CONNZ": "deviations.md: all accounts, to the system account",
}
# Fields that are left out of the comparison, wherever they are.
LEFT_OUT = {
    "git_commit": "what is installed is a release",
    "memstats": "of Go's allocator; a few of them are there",
    "rtt": "shown when it was measured, some time after the start",
}


def shape(view: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each object, with its fields in order, each list and each value's type."""
    if isinstance(view, dict):
        shown = {name: value for name, value in view.items() if name not in LEFT_OUT}
        yield f"{path}: {' '.join(shown)}"
        for name, value in shown.items():
            yield from shape(value, f"{path}.{name}")
    elif isinstance(view, list):
        yield f"{path}: list"
        for value in view:
            yield from shape(value, f"{path}[]")
    else:
        kind = type(view).__name__
        yield f"{path}: {'number' if kind in ('int', 'float') else kind}"


def shown(body: str) -> list[str]:
    """Return the shape of a JSON document, or a text."""
    try:
        return sorted(set(shape(json.loads(body))))
    except ValueError:
        return [body]


class Played:
    """A server with a few clients, streams and consumers, and what it shows of them."""

    def __init__(self, player: Any, command: list[str]) -> None:
        self._player = player
        self._clients: list[Any] = []
        self._server = player.ServerProcess(command, CONFIG)
        try:
            self._server.start()
            found = re.search(r"http monitor on \S+:(\d+)", "".join(self._server.log))
            self._address = f"http://127.0.0.1:{found[1]}"
            client = self._client("a", "first")
            self._play(client)
            self.pages = {path: self._page(path) for path in PAGES}
            self.asked = self._answers(self._client("sys", "system"), SERVICES)
            self.own = self._answers(client, OWN)
        finally:
            self._server.end()

    def _client(self, user: str, name: str) -> Any:
        client = self._player.Wire(self._server.port, (USER % (user, name)).encode())
        self._clients.append(client)  # its connection is to outlive this
        return client

    def _play(self, client: Any) -> None:
        for line in SETUP.strip().splitlines():
            answer = self._answer(client, line)
            assert '"error"' not in answer, answer
        client.subscribe("foo.*")
        client.subscribe("bar", "queue")
        client.publish("s.a", b"1")
        self._until('"messages":1,', lambda: self._answer(client, "STREAM.INFO.M"))
        self._client("b", "second").subscribe("far.news.>")
        gone = self._client("a", "gone")
        gone.subscribe("x")
        gone.settle()
        gone.close()
        self._until('"num_connections": 1', lambda: self._page("/connz?state=closed")[2])
        self._until("far.news", lambda: self._page("/connz?subs=1")[2])

    def _answer(self, client: Any, request: str) -> str:
        (answer,) = self._answers(client, [request], "$JS.API.").values()
        return answer

    def _answers(
        self, client: Any, requests: list[str], prefix: str = "$SYS.REQ."
    ) -> dict[str, str]:
        """Return the answers to requests that are sent one after the other, without waiting."""
        sid = client.subscribe("_MONITORING.*")
        for number, request in enumerate(requests):
            subject, _, body = request.partition(" ")
            client.publish(prefix + subject, body.encode(), f"_MONITORING.{number}")
        answers = {}
        for _ in requests:
            message = client.message(sid, 30)
            assert message is not None, [each for each in requests if each not in answers]
            answers[requests[int(message.subject.split(".")[1])]] = message.payload.decode()
        client.unsubscribe(sid)
        return answers

    def _until(self, text: str, shown: Callable[[], str]) -> None:
        deadline = time.monotonic() + 30
        while text not in shown():
            assert time.monotonic() < deadline, text
            time.sleep(0.02)

    def _page(self, path: str) -> tuple[int, str, str]:
        try:
            with urllib.request.urlopen(self._address + path, timeout=30) as page:
                return page.status, page.headers["Content-Type"], page.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()


@pytest.fixture(scope="module")
def played(player, genuine_binary):
    """Return both servers' answers, ours first."""
    commands = (player.bundled_command(), [genuine_binary])
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda command: Played(player, command), commands))


@pytest.mark.parametrize("path", [each for each in PAGES if each not in DIFFERENT])
def test_pages(played, path):
    (status, kind, body), genuine = (each.pages[path] for each in played)
    assert (status, kind) == genuine[:2]
    assert shown(body) == shown(genuine[2])


@pytest.mark.parametrize("request_", [each for each in SERVICES if each not in DIFFERENT])
def test_requests_of_the_system_account(played, request_):
    ours, genuine = (shown(each.asked[request_]) for each in played)
    assert ours == genuine


@pytest.mark.parametrize("request_", OWN)
def test_requests_of_any_account(played, request_):
    ours, genuine = (shown(each.own[request_]) for each in played)
    assert ours == genuine


def test_the_first_page_leads_to_the_others(played):
    ours, genuine = (set(re.findall(r'href="?\.?(/[\w/]+)', each.pages["/"][2])) for each in played)
    assert len(genuine) == 12
    assert genuine - ours == set()


def test_stacks_are_shown(played):
    status, kind, body = played[0].pages["/stacksz"]
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    assert "MainThread" in body
    assert played[1].pages["/stacksz"][0] == 200
