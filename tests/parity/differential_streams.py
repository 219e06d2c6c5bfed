"""Random configurations of streams: made, updated, looked at."""

from __future__ import annotations

from random import Random

from tests.parity.differential_values import (
    HOUR,
    INT_MAX,
    INT_MIN,
    NUMBERS,
    SECOND,
    Fields,
    Step,
    Value,
    api,
    manner,
    mutated,
    values,
)

_DURATIONS = (0, -1, 1, 99_999_999, 100_000_000, SECOND - 1, SECOND, INT_MAX, INT_MIN)
_TRANSFORMS = (
    {"src": "a.>", "dest": "t.>"},
    {"src": "a.*", "dest": "t.{{wildcard(1)}}"},
    {"src": ">", "dest": "t.>"},
    {"src": "", "dest": "t.>"},
    {"src": "a.*", "dest": "t.{{partition(3,1)}}.{{wildcard(1)}}"},
)
_ODD_TRANSFORMS = (
    {"src": "a.>", "dest": ""},
    {"src": "a.>", "dest": "a.>"},
    {"src": "a.*", "dest": "t.{{wildcard(2)}}"},
    {"src": "a.*", "dest": "t.{{what(1)}}"},
    {"src": "a.*", "dest": "t.*.*"},
    {"src": "a..b", "dest": "t.>"},
    {"src": "a.1", "dest": "t..1"},
    {"src": "a.*.*", "dest": "t.{{wildcard(1)}}"},
    {},
)


def _origin(rng: Random) -> Value:
    origin: dict[str, Value] = {"name": rng.choice(("O", "O", "P", "P", "GONE"))}
    extras: dict[str, Value] = {
        "opt_start_seq": rng.choice((0, 1, 5)),
        "opt_start_time": "2026-01-01T00:00:00Z",
        "filter_subject": rng.choice(("o.>", "o.1", "p.>", "q.>")),
        "subject_transforms": [
            {"src": rng.choice(("o.>", "o.1", "p.*")), "dest": rng.choice(("", "x.>", "x.1"))}
            for _ in range(rng.choice((1, 1, 2)))
        ],
    }
    density = rng.choice((0, 0, 0.2, 0.5))
    return origin | {key: extras[key] for key in extras if rng.random() < density}


def _odd_origin(rng: Random) -> Value:
    origin: dict[str, Value] = _origin(rng)
    odd: dict[str, Value] = {
        "name": rng.choice(("", "a.b", "A", " ", "n" * 256)),
        "opt_start_seq": rng.choice((-1, INT_MAX)),
        "opt_start_time": rng.choice(("", "yesterday", "0001-01-01T00:00:00Z")),
        "filter_subject": rng.choice(("a..b", "o. x", "o.>.x")),
        "subject_transforms": rng.choice(
            ([{"src": "o.>", "dest": "x.*"}], [{"src": "o..", "dest": "x"}], [{}], None)
        ),
        "external": rng.choice(
            (
                {"api": "$JS.hub.API", "deliver": "d"},
                {"api": ""},
                {"api": "x.>", "deliver": ""},
                {"api": "x", "deliver": "a.>"},
                {"api": "$JS.API", "deliver": ""},
            )
        ),
        "consumer": rng.choice(
            ({"name": "C", "deliver_subject": "d"}, {"name": "C"}, {"deliver_subject": "d"}, {})
        ),
    }
    key = rng.choice(sorted(odd))
    return origin | {key: odd[key]}


STREAM: Fields = {
    "description": (("", "words"), ("d" * 4096, "d" * 4097)),
    "subjects": (
        (["a.>"], ["a.*"], ["a.1", "a.2"], ["b.>"], [], None, ["A.x", "a.*.b"]),
        (
            ["a.>", "a.1"],
            ["a.1", "a.1"],
            [">"],
            ["*"],
            ["*.>"],
            ["$JS.>"],
            ["$JS.API.>"],
            ["$JS.EVENT.>"],
            ["$JS.EVENT.ADVISORY.>"],
            ["$SYS.>"],
            ["$KV.x.>"],
            ["a..b"],
            ["a b"],
            [""],
            ["a.>.b"],
            ["o.>"],
            ["o.1"],
            ["a.1", ""],
            [".a"],
            ["a."],
            ["t.>"],
        ),
    ),
    "retention": (("limits", "interest", "workqueue"), ("", "Limits", "work")),
    "max_consumers": ((0, -1, 1, 5), NUMBERS),
    "max_msgs": ((0, -1, 1, 3, 100), NUMBERS),
    "max_bytes": ((0, -1, 200, 100_000), (0, -1, 1, -2, INT_MIN)),
    "max_age": ((0, HOUR, 60 * SECOND), _DURATIONS),
    "max_msgs_per_subject": ((0, -1, 1, 2), NUMBERS),
    "max_msg_size": ((0, -1, 100), (*NUMBERS[:4], 2**31 - 1, 2**31, -(2**31))),
    "discard": (("old", "new"), ("", "New", "none")),
    "storage": (("file", "memory"), ("", "disk")),
    "num_replicas": ((0, 1), (-1, 2, 3, 5, 6, INT_MAX)),
    "no_ack": ((True, False), ()),
    "duplicate_window": ((0, HOUR, 60 * SECOND, SECOND), _DURATIONS),
    "placement": (
        ({}, {"cluster": "c"}, {"tags": ["t"]}, {"tags": []}, None),
        ({"cluster": ""}, {"preferred": "s"}, {"tags": None, "cluster": "x"}, {"tags": [1]}),
    ),
    "mirror": ((_origin,), (_odd_origin,)),
    "sources": (
        # An empty list differs from none, see deviations.md.
        (lambda rng: [_origin(rng)], lambda rng: [_origin(rng), _origin(rng)]),
        (lambda rng: [_odd_origin(rng)], lambda rng: [_origin(rng), _odd_origin(rng)], [{}]),
    ),
    "compression": (("none", "s2"), ("", "S2", "zip")),
    "first_seq": ((0, 1, 10), (-1, 2**40)),
    "subject_transform": (_TRANSFORMS, _ODD_TRANSFORMS),
    "republish": (
        (
            {"src": "a.>", "dest": "r.>"},
            {"dest": "r.>"},
            {"src": ">", "dest": "r.>", "headers_only": True},
            {"src": "a.*", "dest": "r.{{wildcard(1)}}"},
            {"src": "", "dest": "r.>"},
        ),
        (
            {"src": "a.>", "dest": "a.x.>"},
            {"src": "a.>", "dest": "r.*"},
            {"src": "a.>", "dest": ""},
            {"src": "q.>", "dest": "r.>"},
            {"src": "a.1", "dest": "a.2"},
            {"src": "a..", "dest": "r"},
            {"src": "*.>", "dest": "r.>"},
            {"src": "a.*", "dest": "r.{{partition(2,1)}}"},
            {},
        ),
    ),
    "allow_direct": ((True, False), ()),
    "mirror_direct": ((True, False), ()),
    "discard_new_per_subject": ((True, False), ()),
    "sealed": ((False,), (True,)),
    "deny_delete": ((True, False), ()),
    "deny_purge": ((True, False), ()),
    "allow_rollup_hdrs": ((True, False), ()),
    "consumer_limits": (
        (
            {},
            {"inactive_threshold": 60 * SECOND},
            {"max_ack_pending": 10},
            {"max_ack_pending": 10, "inactive_threshold": HOUR},
        ),
        (
            {"inactive_threshold": -1},
            {"max_ack_pending": -1},
            {"max_ack_pending": -2},
            {"max_ack_pending": INT_MAX},
            {"inactive_threshold": INT_MAX},
            None,
        ),
    ),
    "allow_msg_ttl": ((True, False), ()),
    "subject_delete_marker_ttl": ((0, SECOND, HOUR), _DURATIONS),
    "allow_msg_counter": ((True, False), ()),
    "allow_atomic": ((True, False), ()),
    "allow_msg_schedules": ((True, False), ()),
    "persist_mode": (("", "default", "async"), ("sync",)),
    "allow_batched": ((True, False), ()),
    "metadata": (
        ({}, {"k": "v"}, {"a": "1", "b": ""}),
        ({"": "x"}, {"_nats.level": "9"}, {"_nats.x": "y"}, {"k": "v" * 131072}, {"k": 1}),
    ),
    "pedantic": ((True, False, False), ()),
}

# What makes a stream forget, refuse or delay by itself makes what comes after depend on the time.
_TIMED = ("max_age", "duplicate_window", "subject_delete_marker_ttl", "mirror", "sources")


def stream_config(rng: Random, name: str = "A") -> dict[str, Value]:
    """Return any config."""
    density, oddity = manner(rng)
    config = values(rng, STREAM, density, oddity)
    if "mirror" in config and rng.random() < 0.7:
        config.pop("subjects", None)
    elif "subjects" not in config and rng.random() < 0.7:
        config["subjects"] = ["a.>"]
    return {"name": name} | (_coherent(rng, config) if rng.random() < 0.8 else config)


def _coherent(rng: Random, config: dict[str, Value]) -> dict[str, Value]:
    """Return a config without the combinations that are refused most often."""
    config = dict(config)
    if config.get("discard_new_per_subject"):
        config |= {"discard": "new", "max_msgs_per_subject": rng.choice((1, 2))}
    if "mirror" in config:
        for key in ("subjects", "sources", "first_seq", "subject_transform", "allow_batched"):
            config.pop(key, None)
    if config.get("subject_delete_marker_ttl"):
        config.pop("deny_purge", None)
        config["allow_msg_ttl"] = True
    if config.get("allow_msg_counter"):
        for key in ("discard", "retention", "allow_msg_ttl", "allow_msg_schedules"):
            if rng.random() < 0.8:
                config.pop(key, None)
    if config.get("persist_mode") == "async" and rng.random() < 0.8:
        for key in ("allow_atomic", "allow_batched", "storage", "num_replicas"):
            config.pop(key, None)
    if config.get("deny_purge"):
        config.pop("allow_rollup_hdrs", None)
    return config


def calm_config(rng: Random, name: str = "A") -> dict[str, Value]:
    """Return a config that is likely to be accepted, of a stream on which time has no effect."""
    density = rng.choice((0.04, 0.1, 0.2))
    fields = {key: table for key, table in STREAM.items() if key not in _TIMED}
    config = values(rng, fields, density, 0)
    if rng.random() < 0.85:
        config.pop("no_ack", None)
    config.pop("first_seq", None) if rng.random() < 0.5 else None
    config["subjects"] = ["a.>"]
    return {"name": name} | _coherent(rng, config)


def stream_round(rng: Random) -> list[Step]:
    """Return a round that makes streams and updates them."""
    steps = []
    if rng.random() < 0.6:
        steps.append(api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]}))
    if rng.random() < 0.3:
        other = {"name": "P", "subjects": ["p.>"]} | rng.choice(
            ({}, {"retention": "workqueue"}, {"sources": [{"name": "A"}]}, {"allow_direct": True})
        )
        steps.append(api("STREAM.CREATE.P", other))
    config = stream_config(rng)
    for attempt in range(3):
        steps += [api("STREAM.CREATE.A", config), api("STREAM.INFO.A")]
        if attempt and rng.random() < 0.5:
            break
        if rng.random() < 0.5:
            config = stream_config(rng)
    steps.append(api("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"]}))
    if rng.random() < 0.3:
        steps += _inhabitants(rng)
    for _ in range(rng.choice((2, 4, 6))):
        updated = mutated(rng, config, STREAM, rng.choice((0, 0.1, 0.4)))
        if rng.random() < 0.15:
            updated = stream_config(rng)
        steps += [api("STREAM.UPDATE.A", updated), api("STREAM.INFO.A")]
        if rng.random() < 0.6:
            config = updated
    if rng.random() < 0.3:
        name = rng.choice(("A", "B", "a.b", "x y", "A*", "n" * 255, "n" * 256))
        steps.append(api(f"STREAM.{rng.choice(('CREATE', 'UPDATE'))}.A", config | {"name": name}))
    return steps


def _inhabitants(rng: Random) -> list[Step]:
    steps = [Step(f"a.{rng.choice((1, 2, 3))}", b"x" * rng.choice((0, 5, 150))) for _ in range(4)]
    consumer = {"ack_policy": rng.choice(("explicit", "none", "all")), "durable_name": "C"}
    if rng.random() < 0.5:
        consumer["filter_subject"] = rng.choice(("a.1", "a.>", "a.*"))
    if rng.random() < 0.4:
        consumer["deliver_subject"] = "d.x"
    steps.append(api("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": consumer}))
    return steps
