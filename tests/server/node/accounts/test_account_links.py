"""Accounts joined as configured; JetStream behind an API prefix."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from jetstream_server.config.options import AccountOptions, ExportOptions, ImportOptions
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.node.accounts.account_links import AccountLinks, has_own_api
from jetstream_server.node.accounts.stream_imports import StreamImport
from jetstream_server.store.vault import MemoryVault

from tests.node_context import node_context
from tests.traced_lines import lines_of

OPTIONS = {
    "A": AccountOptions(
        "A",
        exports=(
            ExportOptions("service", "$JS.API.>", response="stream"),
            ExportOptions("service", "$JS.ACK.>"),
            ExportOptions("service", "in.>"),
            ExportOptions("stream", "deliver.>"),
        ),
    ),
    "B": AccountOptions(
        "B",
        imports=(
            ImportOptions("service", "A", "$JS.API.>", to="JS.A.API.>"),
            ImportOptions("service", "A", "$JS.ACK.>"),
            ImportOptions("service", "A", "in.>"),
            ImportOptions("stream", "A", "deliver.>"),
        ),
    ),
    "C": AccountOptions("C", imports=(ImportOptions("service", "B", "x"),)),
}
STREAM = b'{"name":"S","subjects":["in.>"],"storage":"memory"}'
NEXT = b"PUB JS.A.API.CONSUMER.MSG.NEXT.S.c "
CREATE = b'{"stream_name":"S","config":{"durable_name":"c","ack_policy":"explicit"}}'


@pytest.fixture
def node(accounts_node):
    node = accounts_node
    for name in "ABC":
        account = node.accounts[name]
        context = node_context(node, account)
        account.catalog = Catalog(context, MemoryVault())
        Api(account.catalog).subscribe()
    configured = {name: OPTIONS[name] for name in "AB"}
    node.links = AccountLinks(node.accounts, configured, node.random)
    node.links.open()
    return node


@pytest.fixture
def connect(connect):
    def with_inbox(user):
        client = connect(user)
        client.say(b"SUB inbox 1\r\n")
        return client

    return with_inbox


def ask(client, subject, body=b""):
    said = client.say(b"PUB %b inbox %d\r\n%b\r\n" % (subject, len(body), body))
    return json.loads(said.partition(b"\r\n")[2].strip())


def turns(node, now, count=4):
    for _ in range(count):
        node.run(now)
        node.release(node.take_held(), now)


def test_who_reaches_whom(node):
    assert [a.name for a in node.accounts["B"].exporters] == ["A"]
    assert node.accounts["A"].exporters == ()
    assert node.links and not AccountLinks({}, {}, node.random)
    before = node.accounts["B"].sublist.count
    node.links.close()
    assert node.accounts["B"].sublist.count == before - 3
    assert node.accounts["B"].exporters == ()


def test_a_stream_of_another_account(node, connect):
    b = connect(b"b")
    made = ask(b, b"JS.A.API.STREAM.CREATE.S", STREAM)
    assert made["did_create"]
    assert ask(b, b"in.1", b"hello") == {"stream": "S", "seq": 1}
    assert list(node.accounts["A"].catalog.streams) == ["S"]
    stored = ask(b, b"JS.A.API.STREAM.MSG.GET.S", b'{"seq":1}')["message"]
    assert "hdrs" not in stored, "what is known of the requester is not stored"
    assert ask(b, b"$JS.API.STREAM.NAMES")["streams"] is None, "its own API is its own"


def test_pull_and_ack_across(node, connect):
    b = connect(b"b")
    ask(b, b"JS.A.API.STREAM.CREATE.S", STREAM)
    for number in range(3):
        ask(b, b"in.%d" % number, b"hello")
    ask(b, b"JS.A.API.CONSUMER.DURABLE.CREATE.S.c", CREATE)
    request = b'{"batch":3,"no_wait":true}'
    said = b.say(NEXT + b"inbox %d\r\n%b\r\n" % (len(request), request))
    turns(node, b.now)
    said += b.read()
    acks = re.findall(rb"MSG in\.\d 1 (\$JS\.ACK\.S\.c\.\S+) ", said)
    assert len(acks) == 3
    b.say(b"".join(b"PUB %b 4\r\n+ACK\r\n" % ack for ack in acks))
    info = ask(b, b"JS.A.API.CONSUMER.INFO.S.c")
    assert (info["num_ack_pending"], info["ack_floor"]["stream_seq"]) == (0, 3)


def test_a_pull_request_goes_with_its_inbox(node, connect):
    b = connect(b"b")
    ask(b, b"JS.A.API.STREAM.CREATE.S", STREAM)
    ask(b, b"JS.A.API.CONSUMER.DURABLE.CREATE.S.c", CREATE)
    b.say(b"SUB other 2\r\nPUB JS.A.API.CONSUMER.MSG.NEXT.S.c other 1\r\n1\r\n")
    assert ask(b, b"JS.A.API.CONSUMER.INFO.S.c")["num_waiting"] == 1
    b.say(b"UNSUB 2\r\n")
    assert ask(b, b"JS.A.API.CONSUMER.INFO.S.c")["num_waiting"] == 0


def test_push_across_is_encoded_for_the_client(node, connect):
    b = connect(b"b")
    ask(b, b"JS.A.API.STREAM.CREATE.S", STREAM)
    b.say(b"SUB deliver.b 9\r\n")
    config = b'{"stream_name":"S","config":{"deliver_subject":"deliver.b","ack_policy":"none"}}'
    assert ask(b, b"JS.A.API.CONSUMER.CREATE.S", config)["push_bound"]
    a = connect(b"a")
    a.say(b"PUB in.1 2\r\nhi\r\nPUB in.2 2\r\nhi\r\n")
    turns(node, b.now)
    assert re.findall(rb"MSG (in\.\d) 9 ", b.read()) == [b"in.1", b"in.2"]


def test_an_api_in_place_of_the_own_one():
    assert has_own_api(None) and has_own_api(OPTIONS["B"])
    imports = (ImportOptions("service", "A", "$JS.API.>"),)
    assert not has_own_api(AccountOptions("D", imports=imports))


def test_who_reaches_whom_is_looked_up_for_those_who_ask(node):
    """In a ring of imports each account reaches all others, which are a million for a thousand."""

    def lines(count):
        configured = {
            f"R{n}": AccountOptions(
                f"R{n}",
                exports=(ExportOptions("stream", "x"),),
                imports=(ImportOptions("stream", f"R{(n + 1) % count}", "x"),),
            )
            for n in range(count)
        }
        for name in configured:
            node.add_account(name)
        links = AccountLinks(node.accounts, configured, node.random)
        taken = lines_of(links.open)
        assert len(node.accounts["R0"].exporters) == count - 1
        links.close()
        return taken

    small = lines(50)
    assert lines(200) < 5 * small


def test_links_that_stay_are_not_made_again(node):
    """Each change of one account closed and opened the links of all: 2,400 took 25 ms."""

    def follow(*accounts):
        configured = {each.name: each for each in accounts}
        node.links = AccountLinks(node.accounts, configured, node.random, node.links)
        node.links.open()
        return [*node.links._links.get("B", ())]

    a, b = OPTIONS["A"], OPTIONS["B"]
    api, ack, into, deliver = node.links._links["B"]
    count = node.accounts["B"].sublist.count
    other = AccountOptions("C", imports=(ImportOptions("service", "A", "in.x"),))
    assert follow(a, b, other) == [api, ack, into, deliver]
    read_again = AccountOptions("B", imports=tuple([replace(each) for each in b.imports]))
    assert follow(a, read_again) == [api, ack, into, deliver]
    assert follow(a, AccountOptions("B", imports=b.imports[1:3])) == [ack, into]
    assert api.subscription.closed and node.accounts["B"].sublist.count == count - 1
    again = follow(a, b)
    assert again[1:3] == [ack, into] and api not in again and deliver not in again
    assert node.accounts["B"].sublist.count == count
    assert follow(a) == [] and not node.links and into.subscription.closed


def test_a_service_whose_export_changes_is_joined_again(node):
    (api, *_), before = list(node.links._links["B"]), node.links
    exports = tuple(
        [ExportOptions("service", each.subject) if each.kind == "service" else each
         for each in OPTIONS["A"].exports]
    )  # fmt: skip
    configured = {"A": AccountOptions("A", exports=exports), "B": OPTIONS["B"]}
    node.links = AccountLinks(node.accounts, configured, node.random, before)
    node.links.open()
    again = list(node.links._links["B"])
    assert again[0] is not api and again[1:] == list(before._links["B"])[1:]
    assert api.subscription.closed, "its answers were several, and are one from now on"


def test_a_link_that_was_given_up_is_made_again(node):
    *_, stream = node.links._links["B"]
    stream.give_up("incident", 0)
    assert node.links.outages()
    node.links = AccountLinks(
        node.accounts, {name: OPTIONS[name] for name in "AB"}, node.random, node.links
    )
    node.links.open()
    assert not node.links.outages() and stream not in node.links._links["B"]


def test_to_join_an_import_takes_as_much_however_many_there_are(make_node):
    def lines(count):
        node = make_node([])
        subjects = [f"x.{number}" for number in range(count)]
        configured = {
            "E": AccountOptions(
                "E", exports=tuple([ExportOptions("service", s) for s in subjects])
            ),
            "I": AccountOptions(
                "I", imports=tuple([ImportOptions("service", "E", s) for s in subjects])
            ),
        }
        for name in configured:
            node.add_account(name)
        return lines_of(AccountLinks(node.accounts, configured, node.random).open)

    assert lines(400) < 5 * lines(100)


def test_what_a_consumer_delivers_is_not_heard_by_way_of_an_import_that_is_no_more(node, connect):
    """Its shadows are taken out of the exporter's list later, if they are many."""
    b = connect(b"b")
    ask(b, b"JS.A.API.STREAM.CREATE.S", STREAM)
    b.say(b"SUB deliver.b 9\r\n")
    config = b'{"stream_name":"S","config":{"deliver_subject":"deliver.b","ack_policy":"none"}}'
    assert ask(b, b"JS.A.API.CONSUMER.CREATE.S", config)["push_bound"]
    rest = AccountOptions("B", imports=OPTIONS["B"].imports[:3])
    node.links = AccountLinks(
        node.accounts, {"A": OPTIONS["A"], "B": rest}, node.random, node.links
    )
    left = node.links.open()
    a = connect(b"a")
    a.say(b"PUB in.1 2\r\nhi\r\n")
    turns(node, b.now)
    assert b.read() == b""
    for account, shadows in left.items():
        node.upkeep.give_up(account, shadows)
    turns(node, b.now)
    assert b.read() == b""


def test_links_that_were_opened_in_part_are_made_again(node, connect, monkeypatch):
    """As an error of our own came up."""
    configured = {name: OPTIONS[name] for name in "AB"}
    there = AccountOptions("B", imports=OPTIONS["B"].imports[:1])
    node.links = AccountLinks(node.accounts, {**configured, "B": there}, node.random, node.links)
    node.links.open()
    count = node.accounts["B"].sublist.count

    def fail(link):
        raise KeyError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(StreamImport, "begin", fail)
        node.links = AccountLinks(node.accounts, configured, node.random, node.links)
        with pytest.raises(KeyError):
            node.links.open()
    node.links = AccountLinks(node.accounts, configured, node.random, node.links)
    node.links.open()
    assert node.accounts["B"].sublist.count == count + 2
    b, a = connect(b"b"), connect(b"a")
    b.say(b"SUB deliver.> 9\r\n")
    a.say(b"PUB deliver.1 2\r\nhi\r\n")
    assert b.read() == b"MSG deliver.1 9 2\r\nhi\r\n"
