"""STREAM.TEMPLATE requests."""

from __future__ import annotations

CONFIG = {"subjects": ["t.*"], "storage": "memory", "max_msgs": 10}


def create(exchange, name="T", streams=2, **config):
    body = {"name": name, "config": CONFIG | config, "max_streams": streams}
    return exchange.ask(f"STREAM.TEMPLATE.CREATE.{name}", body)


def test_create_shows_the_config_with_defaults_and_no_streams(exchange):
    answer = create(exchange)
    assert answer["type"] == "stream_template_create_response"
    assert (answer["config"]["name"], answer["config"]["max_streams"]) == ("T", 2)
    shown = answer["config"]["config"]
    assert (shown["name"], shown["subjects"], shown["max_consumers"]) == ("", ["t.*"], -1)
    assert shown["duplicate_window"] == 120_000_000_000
    assert answer["streams"] == []


def test_info_names_the_streams_it_made(exchange):
    create(exchange)
    exchange.publish("t.b")
    exchange.publish("t.a")
    answer = exchange.ask("STREAM.TEMPLATE.INFO.T")
    assert (answer["type"], answer["streams"]) == ("stream_template_info_response", ["t_b", "t_a"])


def test_names_are_sorted_and_paged(exchange):
    for name in ("B", "A", "C"):
        create(exchange, name, subjects=[f"{name}.*"])
    answer = exchange.ask("STREAM.TEMPLATE.NAMES", {"offset": 1})
    assert answer == {
        "type": "stream_template_names_response",
        "total": 3,
        "offset": 1,
        "limit": 1024,
        "streams": ["B", "C"],
    }
    assert exchange.ask("STREAM.TEMPLATE.NAMES", {"offset": 9})["streams"] == []


def test_delete(exchange):
    create(exchange)
    exchange.publish("t.a")
    assert exchange.ask("STREAM.TEMPLATE.DELETE.T")["success"] is True
    assert exchange.ask("STREAM.NAMES")["streams"] is None
    assert exchange.refusal("STREAM.TEMPLATE.INFO.T") == (10068, "template not found")


def test_refusals(exchange):
    assert exchange.refusal("STREAM.TEMPLATE.DELETE.T") == (10068, "template not found")
    assert exchange.refusal("STREAM.TEMPLATE.DELETE.T", {"a": 1})[0] == 10038
    assert exchange.refusal("STREAM.TEMPLATE.INFO.T", b"x")[0] == 10038
    assert exchange.refusal("STREAM.TEMPLATE.CREATE.T", b"{bad")[0] == 10025
    assert exchange.refusal("STREAM.TEMPLATE.CREATE.T", b"") == (
        10073,
        "template name in subject does not match request",
    )
    wrong = exchange.ask("STREAM.TEMPLATE.NAMES", b"nope")
    assert wrong["error"]["err_code"] == 10025
    assert (wrong["limit"], wrong["streams"]) == (0, None)


def test_streams_of_a_template_can_not_be_changed_or_claimed(exchange):
    create(exchange)
    exchange.publish("t.a")
    owned = exchange.ask("STREAM.INFO.t_a")["config"]
    assert (owned["template_owner"], owned["subjects"]) == ("T", ["t.a"])
    changed = CONFIG | {"name": "t_a", "subjects": ["t.a"], "max_msgs": 5}
    assert exchange.refusal("STREAM.UPDATE.t_a", changed) == (
        10052,
        "stream configuration update not allowed on template owned stream",
    )
    claimed = {"name": "S", "subjects": ["s"], "template_owner": "T"}
    assert exchange.refusal("STREAM.CREATE.S", claimed) == (10049, "stream not owned by template")
    del claimed["template_owner"]
    exchange.ask("STREAM.CREATE.S", claimed)
    assert exchange.refusal("STREAM.UPDATE.S", claimed | {"template_owner": "T"}) == (
        10052,
        "stream configuration update can not set an owner",
    )
