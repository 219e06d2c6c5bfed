"""What an origin is asked for, case by case."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.jetstream.configs.stream_config import OriginConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.origins.origin_request import MIRROR, SOURCE, OriginRequest
from jetstream_server.jetstream.output import Output
from jetstream_server.jetstream.wire.go_json import decode


def request_of(kind: Any = MIRROR, domain: str = "", **source: Any) -> OriginRequest:
    sublist = Sublist()
    context = Context("$G", "n1", domain, sublist, Output(sublist), Nuid(Random(1)))
    config = decode(json.dumps({"name": "O", **source}).encode(), OriginConfig)
    return OriginRequest(context, "M", config, kind, "M $G")


def config_of(request: OriginRequest, position: int = 0) -> dict[str, Any]:
    _, body = request.message(position, "$JS.M.x")
    asked: dict[str, Any] = json.loads(body)
    assert asked["stream_name"] == "O"
    config: dict[str, Any] = asked["config"]
    return config


def test_a_consumer_that_pushes_here() -> None:
    request = request_of()
    subject, _ = request.message(0, "$JS.M.x")
    assert subject == b"$JS.API.CONSUMER.CREATE.O"
    config = config_of(request)
    assert config["name"] == request.name and request.name.startswith("JS_MIRROR_")
    assert (config["deliver_subject"], config["flow_control"]) == ("$JS.M.x", True)
    assert config["metadata"] == {"_nats.mirror.acc": "$G", "_nats.mirror.stream": "M"}


def test_the_name_is_the_same_after_a_restart() -> None:
    assert request_of().name == request_of().name
    assert request_of(SOURCE).name.startswith("JS_SRC_")


@pytest.mark.parametrize(
    ("position", "source", "start"),
    [
        (0, {}, (None, None)),
        (0, {"opt_start_seq": 5}, (5, None)),
        (7, {"opt_start_seq": 5}, (8, None)),
        (0, {"opt_start_time": "2026-01-01T00:00:00Z"}, (None, "2026-01-01T00:00:00Z")),
        (7, {"opt_start_time": "2026-01-01T00:00:00Z"}, (8, None)),
    ],
)
def test_it_goes_on_where_it_stands(position: int, source: dict[str, Any], start: Any) -> None:
    config = config_of(request_of(**source), position)
    assert (config.get("opt_start_seq"), config.get("opt_start_time")) == start


def test_one_filter_is_in_the_subject_and_several_are_not() -> None:
    request = request_of(filter_subject="a.>")
    assert request.message(0, "d")[0] == b"$JS.API.CONSUMER.CREATE.O.%b.a.>" % request.name.encode()
    both = request_of(subject_transforms=[{"src": "a", "dest": "x"}, {"src": "", "dest": "y"}])
    assert both.message(0, "d")[0] == b"$JS.API.CONSUMER.CREATE.O"
    assert config_of(both)["filter_subjects"] == ["a", ">"]


def test_a_prepared_consumer_is_reset() -> None:
    request = request_of(consumer={"name": "C", "deliver_subject": "here"})
    assert request.new_deliver_subject() == "here"
    assert request.message(7, "here") == (b"$JS.API.CONSUMER.RESET.O.C", b"")


def test_an_origin_elsewhere_is_reached_by_its_prefixes() -> None:
    request = request_of(external={"api": "$JS.hub.API", "deliver": "mine"})
    assert request.api_subject("INFO") == b"$JS.hub.API.INFO"
    first, second = request.new_deliver_subject(), request.new_deliver_subject()
    assert first.startswith("mine.M.") and first != second
    own = request_of(domain="hub", external={"api": "$JS.hub.API"})
    assert own.api_subject("INFO") == b"$JS.API.INFO"
    assert request_of(SOURCE).new_deliver_subject().startswith("$JS.S.")
