"""Random configurations of consumers: made, updated, looked at."""

from __future__ import annotations

from random import Random

from tests.parity.differential_streams import calm_config
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

_DURATIONS = (-1, 1, INT_MAX, INT_MIN, SECOND)

CONSUMER: Fields = {
    "durable_name": (("C",), ("D", "", "a.b", "a/b", "n" * 256, "x y", "*", ">")),
    "name": (("C",), ("D", "", "a.b", "a\\b", "x y")),
    "description": (("", "words"), ("d" * 4096, "d" * 4097)),
    "deliver_policy": (
        ("all", "last", "new", "last_per_subject", "by_start_sequence", "by_start_time"),
        ("undefined", "", "All"),
    ),
    "opt_start_seq": ((0, 1, 3, 100), (-1, INT_MAX)),
    "opt_start_time": (
        ("2026-01-01T00:00:00Z", None),
        ("2099-01-01T00:00:00Z", "", "0001-01-01T00:00:00Z", "now"),
    ),
    "ack_policy": (("none", "all", "explicit"), ("flow_control", "", "Explicit")),
    "ack_wait": ((0, 30 * SECOND, HOUR), _DURATIONS),
    "max_deliver": ((0, -1, 1, 5), NUMBERS),
    "backoff": (
        ([], [SECOND, HOUR], None, [30 * SECOND]),
        ([0], [-1], [SECOND] * 6, [INT_MAX], [1, 2, 3], [HOUR, SECOND], ["1s"]),
    ),
    "filter_subject": (
        ("a.1", "a.>", "a.*", "", ">"),
        ("b.1", "a..", "a b", "*", "a.1.2", "a.>.b"),
    ),
    "filter_subjects": (
        (["a.1"], ["a.1", "a.2"], [], None, ["a.*"]),
        (["a.1", "a.1"], ["a.>", "a.1"], ["b.1"], [""], ["a.1", ""], ["a.."], [">"]),
    ),
    "replay_policy": (("instant", "original"), ("", "fast")),
    "rate_limit_bps": ((0, 1_000_000), (-1, 1, INT_MAX)),
    "sample_freq": (("", "100", "50%"), ("0", "-1", "101%", "x", "%", "1.5", " 5", "5 %", "+5")),
    "max_waiting": ((0, 1, 512), NUMBERS),
    "max_ack_pending": ((0, -1, 1, 10, 1000), NUMBERS),
    "flow_control": ((True, False), ()),
    "headers_only": ((True, False), ()),
    "max_batch": ((0, 1, 10), NUMBERS),
    "max_expires": ((0, SECOND, HOUR), (*_DURATIONS, 999_999, 1_000_000)),
    "max_bytes": ((0, 100, 1000), NUMBERS),
    "deliver_subject": (
        ("d.x", "d.x", ""),
        ("a.1", "d.>", "*", "d..x", "d x", "_INBOX.q", "a.*"),
    ),
    "deliver_group": (("", "g"), ("g h", "g.h", "*", "n" * 100)),
    "idle_heartbeat": ((0, SECOND, HOUR), (*_DURATIONS, 99_999_999, 100_000_000)),
    "inactive_threshold": ((0, HOUR, 60 * SECOND), (-1, INT_MAX, INT_MIN)),
    "num_replicas": ((0, 1), (-1, 2, 3, INT_MAX)),
    "mem_storage": ((True, False), ()),
    "metadata": (
        ({}, {"k": "v"}),
        ({"": "x"}, {"_nats.level": "9"}, {"_nats.x": "y"}, {"k": "v" * 131072}, {"k": 1}),
    ),
    "pause_until": (
        ("2099-01-01T00:00:00Z", None),
        ("2020-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "x", "2099-01-01T00:00:00+02:00"),
    ),
    "priority_groups": (
        (["g"], [], None),
        (["g", "h"], [""], ["n" * 17], ["g g"], ["g", "g"], ["-_/="], ["g."]),
    ),
    "priority_policy": (
        ("", "none", "overflow", "pinned_client", "prioritized"),
        ("Overflow", "pinned"),
    ),
    "priority_timeout": ((0, SECOND, HOUR), _DURATIONS),
    "direct": ((False,), (True,)),
    "sourcing": ((False,), (True,)),
}
_TIMED = ("ack_wait", "backoff", "max_expires", "idle_heartbeat", "rate_limit_bps")
_PUSH = ("deliver_subject", "deliver_group", "flow_control", "direct", "sourcing")


def consumer_config(rng: Random) -> dict[str, Value]:
    """Return any config."""
    density, oddity = manner(rng)
    config = values(rng, CONSUMER, density, oddity)
    if rng.random() < 0.8:
        # Most of these fields refuse most of the others.
        if "deliver_subject" not in config:
            for key in ("deliver_group", "flow_control", "idle_heartbeat", "rate_limit_bps"):
                config.pop(key, None)
        if config.get("deliver_policy") != "by_start_sequence":
            config.pop("opt_start_seq", None)
        if config.get("deliver_policy") != "by_start_time":
            config.pop("opt_start_time", None)
        if "filter_subject" in config:
            config.pop("filter_subjects", None)
        if config.get("priority_policy", "none") not in ("", "none"):
            config.setdefault("priority_groups", ["g"])
        else:
            config.pop("priority_groups", None)
        config.pop("direct", None)
        config.pop("sourcing", None)
    if "ack_policy" not in config and rng.random() < 0.7:
        config["ack_policy"] = "explicit"
    return config


def pull_config(rng: Random) -> dict[str, Value]:
    """Return the config of a durable pull consumer on which time has no effect."""
    fields = {key: table for key, table in CONSUMER.items() if key not in (*_TIMED, *_PUSH)}
    config = values(rng, fields, rng.choice((0.05, 0.15)), 0)
    for key in ("opt_start_seq", "opt_start_time", "pause_until", "replay_policy", "name"):
        config.pop(key, None)
    config.pop("mem_storage", None)  # what is passed over counts there, see deviations.md
    if config.get("deliver_policy", "").startswith("by_"):
        del config["deliver_policy"]
    if "filter_subject" in config:
        config.pop("filter_subjects", None)
    if config.get("priority_policy", "") not in ("", "none"):
        config["priority_groups"] = ["g"]
    else:
        config.pop("priority_groups", None)
    return {"ack_policy": "explicit"} | config | {"durable_name": "C"}


def consumer_round(rng: Random) -> list[Step]:
    """Return a round that makes consumers and updates them."""
    steps = [api("STREAM.CREATE.A", calm_config(rng))]
    if rng.random() < 0.8:
        steps.append(api("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"]}))
    steps += [Step(f"a.{rng.choice((1, 2, 3))}", b"x") for _ in range(rng.choice((0, 3, 6)))]
    config = consumer_config(rng)
    for _ in range(rng.choice((2, 3))):
        steps += _create(rng, config)
        if rng.random() < 0.6:
            config = consumer_config(rng)
    for _ in range(rng.choice((2, 4, 6))):
        updated = mutated(rng, config, CONSUMER, rng.choice((0, 0.1, 0.4)))
        steps += _create(rng, updated)
        if rng.random() < 0.6:
            config = updated
        if rng.random() < 0.2:
            steps.append(Step("a.1", b"y"))
    steps.append(api("STREAM.INFO.A"))
    return steps


def _create(rng: Random, config: dict[str, Value]) -> list[Step]:
    body: dict[str, Value] = {"stream_name": "A", "config": config}
    if rng.random() < 0.25:
        body["action"] = rng.choice(("create", "update", "", "Create", "update"))
    if rng.random() < 0.15:
        body["pedantic"] = True
    if rng.random() < 0.02:
        body["stream_name"] = rng.choice(("B", ""))
    name = rng.choice(("C", "C", "C", "C", "D"))
    filtered = config.get("filter_subject")
    form = rng.random()
    if form < 0.1:
        subject = "CONSUMER.CREATE.A"
    elif form < 0.3:
        subject = f"CONSUMER.DURABLE.CREATE.A.{name}"
        if rng.random() < 0.8:
            body["config"] = {"durable_name": name} | config
    elif form < 0.45 and isinstance(filtered, str) and filtered and " " not in filtered:
        subject = f"CONSUMER.CREATE.A.{name}.{filtered}"
    elif form < 0.48:
        subject = f"CONSUMER.CREATE.A.{name}.a.1"
    else:
        subject = f"CONSUMER.CREATE.A.{name}"
    return [api(subject, body), api(f"CONSUMER.INFO.A.{name}")]
