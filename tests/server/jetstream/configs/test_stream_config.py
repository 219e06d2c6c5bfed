"""StreamConfig: wire order, defaults, sealing and the server's metadata."""

from __future__ import annotations

import re
from typing import Any

import pytest
from jetstream_server.base.clock import HOUR, SECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.configs.stream_config import (
    StreamConfig,
    StreamConfigRequest,
    described,
    required_level,
    sealed,
    with_defaults,
)
from jetstream_server.jetstream.wire import go_json


def decoded(**fields: Any) -> StreamConfig:
    return go_json.decode(go_json.encode({"name": "S", **fields}), StreamConfigRequest).config()


def test_what_a_new_stream_shows() -> None:
    config = with_defaults(decoded(name="ORDERS", subjects=["orders.*"]))
    assert go_json.encode(described(config)) == (
        b'{"name":"ORDERS","subjects":["orders.*"],"retention":"limits","max_consumers":-1,'
        b'"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,'
        b'"discard":"old","storage":"file","num_replicas":1,"duplicate_window":120000000000,'
        b'"compression":"none","allow_direct":false,"mirror_direct":false,"sealed":false,'
        b'"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},'
        b'"allow_msg_ttl":false,"metadata":{"_nats.level":"4","_nats.req.level":"0",'
        b'"_nats.ver":"2.14.5"}}'
    )


@pytest.mark.parametrize(
    ("fields", "place", "kind"),
    [
        ({"mirror": 5}, ".mirror", "server.StreamSource"),
        ({"sources": 5}, ".sources", "[]*server.StreamSource"),
        ({"placement": 5}, ".placement", "server.Placement"),
        ({"republish": 5}, ".republish", "server.RePublish"),
        ({"subject_transform": 5}, ".subject_transform", "server.SubjectTransformConfig"),
        ({"mirror": {"external": 5}}, ".mirror.external", "server.ExternalStream"),
    ],
)
def test_misfits_name_types_as_the_genuine_server_does(
    fields: dict[str, Any], place: str, kind: str
) -> None:
    words = re.escape(f"{place} of type {kind}")
    with pytest.raises(ApiError, match=rf"field StreamConfigRequest{words}$"):
        decoded(**fields)


def test_every_field_in_wire_order() -> None:
    wire = (
        b'{"name":"FULL","description":"d","subjects":["full.*"],"retention":"limits",'
        b'"max_consumers":5,"max_msgs":10,"max_bytes":1000,"max_age":1000000000000,'
        b'"max_msgs_per_subject":5,"max_msg_size":100,"discard":"new","storage":"memory",'
        b'"num_replicas":1,"no_ack":true,"duplicate_window":1000000000,'
        b'"placement":{"cluster":"c","tags":["a"]},"compression":"s2","first_seq":7,'
        b'"subject_transform":{"src":"full.*","dest":"out.$1"},'
        b'"republish":{"src":"full.*","dest":"rp.$1","headers_only":true},"allow_direct":true,'
        b'"mirror_direct":false,"discard_new_per_subject":true,"sealed":false,'
        b'"deny_delete":true,"deny_purge":false,"allow_rollup_hdrs":true,'
        b'"consumer_limits":{"inactive_threshold":1000000000,"max_ack_pending":5},'
        b'"allow_msg_ttl":true,"allow_atomic":true,"allow_batched":true,'
        b'"metadata":{"_nats.foo":"z","_nats.req.level":"4","x":"y"}}'
    )
    config = go_json.decode(wire, StreamConfigRequest).config()
    assert go_json.encode(with_defaults(config).to_wire()) == wire


def test_a_source_in_wire_order() -> None:
    wire = (
        b'{"name":"MK","opt_start_seq":3,"opt_start_time":"2020-01-01T00:00:00.12+02:00",'
        b'"filter_subject":"mk","subject_transforms":[{"src":"cn","dest":"z"}],'
        b'"external":{"api":"$JS.x.API","deliver":""}}'
    )
    config = go_json.decode(b'{"name":"M","mirror":' + wire + b"}", StreamConfigRequest).config()
    assert config.mirror is not None
    assert go_json.encode(config.mirror.to_wire()) == wire
    filled = with_defaults(config)
    assert (filled.subjects, filled.duplicate_window) == ([], 0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max_msgs": -2, "max_bytes": 0, "max_msg_size": -9}, {"max_msgs": -1, "max_bytes": -1}),
        ({"max_age": SECOND}, {"duplicate_window": SECOND}),
        ({"max_age": HOUR}, {"duplicate_window": 120 * SECOND}),
        ({"placement": {}}, {"placement": None}),
        ({"placement": {"cluster": ""}}, {"placement": None}),
        ({"persist_mode": "default"}, {"persist_mode": ""}),
        (
            {"subject_delete_marker_ttl": 2 * SECOND, "deny_purge": True},
            {"allow_msg_ttl": True, "allow_rollup_hdrs": True, "deny_purge": False},
        ),
        ({"allow_msg_schedules": True}, {"allow_rollup_hdrs": True, "allow_msg_ttl": False}),
    ],
)
def test_defaults(given: dict[str, Any], expected: dict[str, Any]) -> None:
    config = with_defaults(decoded(**given))
    assert {name: getattr(config, name) for name in expected} == expected


def test_an_empty_republish_source_is_everything() -> None:
    config = with_defaults(decoded(republish={"dest": "rp.>"}))
    assert config.republish is not None
    assert config.republish.to_wire() == {"src": ">", "dest": "rp.>"}


def test_placement_with_an_empty_tag_list_is_kept() -> None:
    assert with_defaults(decoded(placement={"tags": []})).to_wire()["placement"] == {}


def test_the_servers_limit_bounds_the_default_window() -> None:
    assert with_defaults(decoded(), 10 * SECOND).duplicate_window == 10 * SECOND


def test_defaults_are_stable_and_echoed_metadata_is_no_difference() -> None:
    config = with_defaults(decoded(metadata={"a": "b"}))
    echoed = go_json.decode(go_json.encode(described(config)), StreamConfigRequest).config()
    assert with_defaults(echoed) == config


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({}, 0),
        ({"allow_msg_ttl": True}, 1),
        ({"subject_delete_marker_ttl": SECOND}, 1),
        ({"allow_msg_counter": True}, 2),
        ({"allow_atomic": True}, 2),
        ({"allow_msg_schedules": True}, 2),
        ({"persist_mode": "async"}, 2),
        ({"allow_batched": True, "allow_atomic": True}, 4),
    ],
)
def test_required_level(fields: dict[str, Any], level: int) -> None:
    assert required_level(decoded(**fields)) == level


def test_sealing_freezes_everything() -> None:
    config = sealed(with_defaults(decoded(max_age=HOUR, allow_rollup_hdrs=True, sealed=True)))
    assert (config.max_age, config.discard) == (0, "new")
    assert config.deny_delete and config.deny_purge and not config.allow_rollup_hdrs
