"""What JetStream holds."""

from __future__ import annotations

from dataclasses import replace

from jetstream_server.config.options import AccountOptions
from jetstream_server.core.steps import without_pauses
from jetstream_server.monitor import jsz as pages
from jetstream_server.monitor.jsz import JszOptions, jsz_in_steps
from jetstream_server.monitor.query import Query


def jsz(node, now, options=None):
    return without_pauses(jsz_in_steps(node, now, options or JszOptions()))


def view_of(node, now, **parameters):
    return jsz(node, now, JszOptions.of(Query(parameters)))


def test_sums(filled, now):
    view = view_of(filled, now)
    assert (view["accounts"], view["total"]) == (2, 2)
    assert (view["streams"], view["consumers"], view["messages"]) == (1, 1, 2)
    assert view["memory"] == view["bytes"] > 0
    assert view["api"] == {"level": 4, "total": 2, "errors": 0}
    assert "account_details" not in view and "disabled" not in view


def test_each_level_includes_those_above(filled, now):
    (_, account) = view_of(filled, now, accounts="1")["account_details"]
    assert account["name"] == "A" and "stream_detail" not in account
    assert account["reserved_memory"] == 2**64 - 1
    (account,) = view_of(filled, now, streams="1", acc="A")["account_details"]
    (stream,) = account["stream_detail"]
    assert (stream["name"], stream["state"]["messages"]) == ("S", 2)
    assert "config" not in stream and "consumer_detail" not in stream
    (account,) = view_of(filled, now, consumers="1", acc="A")["account_details"]
    (consumer,) = account["stream_detail"][0]["consumer_detail"]
    assert (consumer["name"], consumer["num_pending"]) == ("C", 2)
    assert "config" not in consumer


def test_configs_on_demand(filled, now):
    view = view_of(filled, now, consumer=True, config=True, account="A")
    (stream,) = view["account_details"][0]["stream_detail"]
    assert stream["config"]["subjects"] == ["s"]
    (consumer,) = stream["consumer_detail"]
    assert consumer["config"]["durable_name"] == "C"
    assert "_nats.ver" not in consumer["config"]["metadata"]  # the API adds it to its answers
    assert list(consumer)[:5] == ["stream_name", "name", "created", "config", "delivered"]


def test_who_leads(filled, now):
    view = view_of(filled, now, raft="1")
    assert (view["streams_leader"], view["consumers_leader"]) == (1, 1)


def test_pages_of_accounts(filled, now):
    names = [
        view_of(filled, now, accounts="1", offset=str(at), limit="1")["account_details"][0]["name"]
        for at in range(2)
    ]
    assert names == ["$G", "A"]
    assert "account_details" not in view_of(filled, now, acc="NOPE")


def test_without_jetstream(plain_node, now):
    view = view_of(plain_node, now, accounts="1")
    assert view["disabled"] is True and view["accounts"] == 0


def test_the_global_account_does_not_count_beside_others(node, now, connect):
    options = replace(node.options, accounts=(AccountOptions("A"),))
    node.options = options
    view = jsz(node, now, JszOptions(accounts=True))
    assert (view["accounts"], view["total"]) == (1, 1)
    assert [each["name"] for each in view["account_details"]] == ["A"]
    connect("g").ask("$JS.API.STREAM.CREATE.G", '{"name":"G","subjects":["g"],"storage":"memory"}')
    assert jsz(node, now)["accounts"] == 2


def test_consumers_of_mirrors_do_not_count(filled, now, monkeypatch):
    (stream,) = filled.accounts["A"].catalog.streams.values()
    assert jsz(filled, now)["consumers"] == 1
    (consumer,) = stream.consumers.values()
    del stream.consumers[consumer.name]
    monkeypatch.setattr(type(consumer), "internal", property(lambda consumer: True))
    stream.consumers[consumer.name] = consumer
    assert jsz(filled, now)["consumers"] == 0


def test_no_step_looks_at_much(filled, now, connect, monkeypatch):
    """Streams and consumers that are deleted meanwhile are left out."""
    client = connect("a")
    for name in ("T", "U", "V"):
        client.ask(f"$JS.API.STREAM.CREATE.{name}", f'{{"name":"{name}","storage":"memory"}}')
    for name in ("a", "b", "c"):
        body = f'{{"stream_name":"T","config":{{"durable_name":"{name}"}}}}'
        client.ask(f"$JS.API.CONSUMER.CREATE.T.{name}", body)
    options = JszOptions(accounts=True, streams=True, consumers=True)
    whole = jsz(filled, now, options)
    monkeypatch.setattr(pages, "SHOWN_AT_ONCE", 1)
    assert len(list(jsz_in_steps(filled, now, options))) == 8  # 4 streams, 4 consumers
    assert without_pauses(jsz_in_steps(filled, now, options)) == whole
    steps = jsz_in_steps(filled, now, options)
    for _ in range(3):  # as far as the first consumer of T
        next(steps)
    client.ask("$JS.API.CONSUMER.DELETE.T.b")
    client.ask("$JS.API.STREAM.DELETE.V")
    (account,) = [each for each in without_pauses(steps)["account_details"] if each["name"] == "A"]
    shown = {each["name"]: each for each in account["stream_detail"]}
    assert list(shown) == ["S", "T", "U"]
    assert [each["name"] for each in shown["T"]["consumer_detail"]] == ["a", "c"]
