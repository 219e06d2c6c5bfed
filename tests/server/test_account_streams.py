"""JetStream of all accounts: what the configuration gives, refuses and changes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from jetstream_server.account_streams import AccountStreams, store_dir
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.config.lexer import parse_text
from jetstream_server.config.load import options_of
from jetstream_server.config.options import ServerOptions
from jetstream_server.jetstream.configs.account_limits import AccountLimits
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.node.auth.auth import Authenticator
from jetstream_server.node.node import Node
from jetstream_server.node.reload import arrange_accounts
from jetstream_server.store.disk.cipher_disk import ENCRYPTED_BLOCK_BYTES

from tests.traced_lines import lines_of

NOW = 1_700_000_000 * SECOND
ACCOUNTS = """
accounts {
  A { jetstream: %s, users: [{user: a, password: x}] }
  B { users: [{user: b, password: x}] }
}
"""


@dataclass
class Opened:
    """Streams of a node, and what was logged."""

    node: Node
    streams: AccountStreams
    log: list[str]

    def has_api(self, account: str) -> bool:
        return self.node.accounts[account].sublist.has_interest(b"$JS.API.INFO")


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., ServerOptions]:
    """Read a configuration whose streams are in the folder of the test."""

    def read_(text: str = "", within: str = "") -> ServerOptions:
        block = f'jetstream {{ store_dir: "{tmp_path}", {within} }}\n'
        return options_of(parse_text(block + text, "n.conf"))

    return read_


@pytest.fixture
def opened() -> Iterator[Callable[[ServerOptions], Opened]]:
    """Open the streams of these options; closed at the end."""
    with contextlib.ExitStack() as stack:

        def open_(options: ServerOptions) -> Opened:
            log: list[str] = []
            node = Node(options, Authenticator([]), Random(1), lambda level, text: None, port=4222)
            arrange_accounts(node, options)
            streams = AccountStreams(node, options, lambda level, text: log.append(text))
            stack.enter_context(contextlib.closing(streams))
            streams.recover(NOW)
            return Opened(node, streams, log)

        yield open_


def test_an_account_has_streams_an_api_and_limits(read, opened, tmp_path):
    it = opened(read(ACCOUNTS % "{max_streams: 3, max_store: 1MiB}"))
    catalog = it.node.accounts["A"].catalog
    assert catalog.limits == AccountLimits(max_streams=3, max_storage=1 << 20)
    assert it.has_api("A")
    assert it.log[:2] == ["Starting JetStream", f'  Store Directory: "{tmp_path}/jetstream"']


def test_an_account_without_jetstream_is_told_so(read, opened):
    it = opened(read(ACCOUNTS % "enabled"))
    assert it.node.accounts["B"].catalog is None
    assert it.has_api("B")  # that of refusals
    assert it.node.accounts["$SYS"].catalog is None


def test_a_changed_configuration_is_followed(read, opened):
    it = opened(read(ACCOUNTS % "disabled"))
    assert it.node.accounts["A"].catalog is None
    options = read(ACCOUNTS % "{max_streams: 1}")
    it.streams.follow(options, NOW)
    catalog = it.node.accounts["A"].catalog
    assert catalog is not None and catalog.limits.max_streams == 1
    it.streams.follow(read(ACCOUNTS % "{max_streams: 2}"), NOW)
    assert it.node.accounts["A"].catalog is catalog
    assert catalog.limits.max_streams == 2


def test_limits_of_the_server(read, opened):
    it = opened(read(within="max_mem: 1MiB, limits { max_ack_pending: 5 }"))
    limits = it.node.accounts["$G"].catalog.server_limits
    assert (limits.max_memory, limits.max_storage, limits.max_ack_pending) == (1 << 20, -1, 5)


def test_what_accounts_reserve_together_has_the_limit_of_the_server(read, opened):
    both = ACCOUNTS.replace("B { users", "B { jetstream: enabled, users")
    it = opened(read(both % "enabled", within="max_file: 1000"))
    first, second = (it.node.accounts[name].catalog for name in "AB")
    first.create(StreamConfig(name="S", subjects=["s"], max_bytes=600), NOW)
    with pytest.raises(ApiError, match="insufficient storage resources"):
        second.create(StreamConfig(name="S", subjects=["s"], max_bytes=600), NOW)


def test_one_server_at_a_time(read, opened):
    first = opened(read())
    with pytest.raises(StoreError, match="another server"):
        opened(read())
    first.streams.close()
    opened(read())


def test_a_start_that_fails_gives_the_folder_back(read, opened):
    opened(read(within="key: secret")).streams.close()
    with pytest.raises(StoreError):
        opened(read(within="key: wrong"))
    it = opened(read(within="key: secret"))
    assert "  Encryption: chacha" in it.log
    assert it.streams._block_bytes == ENCRYPTED_BLOCK_BYTES


def test_where_streams_are_without_a_folder():
    assert store_dir(ServerOptions()).name == "nats"


def test_many_accounts_are_followed_one_by_one(read, opened):
    """With an operator, each account whose claims change has all of them followed."""

    def lines(count: int) -> int:
        accounts = ", ".join(f"A{n} {{ jetstream: enabled }}" for n in range(count))
        options = read(f"accounts {{ {accounts} }}")
        with contextlib.closing(opened(options).streams) as streams:
            return lines_of(lambda: streams.follow(options, NOW))

    assert lines(200) < 5 * lines(50)


def test_accounts_that_stay_without_jetstream_are_left_as_they_are(opened, read) -> None:
    """To refuse for thousands of accounts anew, whenever one of them changes, takes half a
    second."""
    accounts = ", ".join(f"A{n} {{}}" for n in range(200))
    options = read(f"accounts {{ {accounts} }}")
    with contextlib.closing(opened(options).streams) as streams:
        assert lines_of(lambda: streams.follow(options, NOW)) < 40 * 200


def test_an_account_answers_as_its_imports_say_after_each_change(opened, read) -> None:
    """One without JetStream refuses, unless it imports the API of another."""
    text = """accounts {
      A { exports: [ {service: "$JS.API.>"} ], jetstream: enabled }
      B { %s }
    }"""
    plain = read(text % "")
    joined = read(text % 'imports: [ {service: {account: A, subject: "$JS.API.>"}} ]')
    all_of_it = opened(plain)
    with contextlib.closing(all_of_it.streams) as streams:
        for options, has_own in ((plain, True), (joined, False), (joined, False), (plain, True)):
            streams.follow(options, NOW)
            assert all_of_it.has_api("B") is has_own


@pytest.mark.parametrize("made_as", ["heard", "$JS.EVENT.ADVISORY.STREAM.UPDATED.A"])
def test_a_stream_takes_what_is_told_of_the_update_by_which_it_came_to_listen_to_that(
    read, opened, made_as
):
    """As in the genuine server. A parity scenario cannot show it: the state in its answer to the
    update is from before or after that, by chance."""
    opened = opened(read())
    node, told = opened.node, "$JS.EVENT.ADVISORY.STREAM.UPDATED.A"
    session = node.open_session("10.0.0.1", 5000, NOW)
    streams = node.accounts["$G"].catalog.streams

    def ask(verb: str, subjects: list[str]) -> None:
        body = json.dumps({"name": "A", "subjects": subjects}).encode()
        request = b"PUB $JS.API.STREAM.%b.A %d\r\n%b\r\n" % (verb.encode(), len(body), body)
        session.feed(request)
        for _ in range(5):
            node.run(NOW)
            assert not opened.streams.commit.drain()
            node.release(node.take_held(), NOW)

    session.feed(b'CONNECT {"verbose":false}\r\n')
    ask("CREATE", [made_as])
    ask("UPDATE", ["heard", told])
    assert streams["A"].store.last_seq == 1
    ask("UPDATE", ["heard"])
    assert streams["A"].store.last_seq == 1, "it listens no more"
