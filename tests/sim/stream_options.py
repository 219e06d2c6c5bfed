"""What streams and consumers the clients make: options in combinations drawn from the seed."""

from __future__ import annotations

from random import Random
from typing import Any

from jetstream_server.base.clock import SECOND

from tests.sim.life import Life

TOKENS = (b"a", b"b", b"c", b"d.e")


def limits(random: Random) -> dict[str, Any]:
    """Return limits of a stream."""
    return {
        "max_msgs": random.choice([-1, -1, 5, 50]),
        "max_bytes": random.choice([-1, -1, 3_000]),
        "max_msgs_per_subject": random.choice([-1, -1, 1, 3]),
        "max_age": random.choice([0, 0, 0, 3, 20]) * SECOND,
    }


def with_window(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config whose duplicate window is not longer than its messages live."""
    if config.get("max_age"):
        config["duplicate_window"] = min(config["duplicate_window"], config["max_age"])
    return config


def stream_config(
    random: Random, name: str, token: bytes, origins: list[Life], *, is_plain: bool
) -> dict[str, Any]:
    """Return the config of a new stream.

    Args:
        origins: what it may copy from.
        is_plain: nothing but retention and limits.
    """
    config: dict[str, Any] = {
        "name": name,
        "metadata": {"life": token.decode()},
        "storage": random.choice(["file"] * 6 + ["memory"]),
        "duplicate_window": random.choice([2, 30, 120]) * SECOND,
        "allow_direct": True,
        "compression": "none" if len(origins) % 3 else "s2",
    }
    kind = "plain" if is_plain else random.choice(_KINDS)
    if kind == "mirror" and origins:
        config["mirror"] = _origin(random, random.choice(origins))
        config["mirror_direct"] = random.random() < 0.5
        config["max_msgs"] = random.choice([-1, -1, 20])
        config["allow_msg_ttl"] = random.random() < 0.5
        return config
    config["subjects"] = [token.decode() + ".>"]
    config["first_seq"] = random.choice([0, 0, 0, 50])
    if kind == "source" and origins:
        chosen = random.sample(origins, min(len(origins), random.choice([1, 2])))
        config["sources"] = [_origin(random, origin) for origin in chosen]
        config["max_msgs"] = random.choice([-1, -1, 20])
        config["retention"] = random.choice(["limits", "limits", "workqueue"])
        return config
    if kind == "counter":
        config["allow_msg_counter"] = True
        config["allow_atomic"] = random.random() < 0.5
        return with_window(config | limits(random))
    if kind == "schedule":
        config |= {"allow_msg_schedules": True, "allow_rollup_hdrs": True}
        config["max_age"] = random.choice([0, 0, 20]) * SECOND
        return with_window(config)
    if kind == "ttl":
        config |= {"allow_msg_ttl": True, "allow_rollup_hdrs": True} | limits(random)
        config["subject_delete_marker_ttl"] = random.choice([0, 1, 2]) * SECOND
        return with_window(config)
    return _plain(random, config, token)


_KINDS = ["plain"] * 5 + ["mirror", "source", "counter", "schedule", "ttl"]


def _plain(random: Random, config: dict[str, Any], token: bytes) -> dict[str, Any]:
    config["retention"] = random.choice(["limits", "limits", "interest", "workqueue", "workqueue"])
    config["discard"] = random.choice(["old", "old", "old", "new"])
    config["allow_atomic"] = random.random() < 0.4
    if config["retention"] == "limits":
        config["allow_rollup_hdrs"] = random.random() < 0.3
        config["allow_batched"] = random.random() < 0.3
        config |= limits(random)
        if config["discard"] == "new" and config["max_msgs_per_subject"] > 0:
            config["discard_new_per_subject"] = random.random() < 0.5
    return with_window(config | shape(random, token))


def shape(random: Random, token: bytes) -> dict[str, Any]:
    """Return what becomes of subjects: nothing, mostly."""
    prefix, chosen = token.decode(), dict[str, Any]()
    if random.random() < 0.15:
        chosen["republish"] = {
            "src": f"{prefix}.>",
            "dest": f"REP.{prefix}.>",
            "headers_only": random.random() < 0.3,
        }
    if random.random() < 0.15:
        chosen["subject_transform"] = {
            "src": f"{prefix}.*",
            "dest": prefix + ".t.{{wildcard(1)}}",
        }
    return chosen


def _origin(random: Random, origin: Life) -> dict[str, Any]:
    """Return a source: all of a stream, or a part, under the same or another subject."""
    source: dict[str, Any] = {"name": origin.name}
    match random.choice(["all", "all", "filter", "rename", "rename some"]):
        case "filter":
            source["filter_subject"] = f"*.{random.choice(TOKENS).decode()}"
        case "rename":
            source["subject_transforms"] = [{"src": "*.>", "dest": "q.{{wildcard(1)}}.>"}]
        case "rename some":
            token = random.choice(TOKENS).decode()
            source["subject_transforms"] = [
                {"src": f"*.{token}", "dest": "q.{{wildcard(1)}}." + token}
            ]
    if random.random() < 0.15:
        source["opt_start_seq"] = random.randrange(1, 30)
    return source


def reader_config(random: Random, life: Life, name: str) -> dict[str, Any]:
    """Return the config of a new consumer."""
    policy = random.choice(["explicit", "explicit", "explicit", "all", "none"])
    if life.retention == "workqueue":
        policy = "explicit"
    config: dict[str, Any] = {
        "name": name, "durable_name": name, "ack_policy": policy,
        "deliver_policy": random.choice(["all", "all", "new", "last_per_subject"]),
    }  # fmt: skip
    if life.retention != "limits":
        config["deliver_policy"] = "all"
    if random.random() < 0.4 or life.retention == "workqueue":
        config["filter_subjects"] = [reader_filter(random, life)]
    if policy != "none":
        config["ack_wait"] = random.choice([1, 3]) * SECOND
        config["max_ack_pending"] = random.choice([1000, 1000, 5])
        config["max_deliver"] = random.choice([-1, -1, -1, 1, 3])
        if random.random() < 0.2 and config["max_deliver"] != 1:
            config["backoff"] = [SECOND // 2, 2 * SECOND]
    if random.random() < 0.1:
        config["mem_storage"] = True
    if random.random() < 0.05:
        config["headers_only"] = True
    if random.random() < 0.3:
        config["deliver_subject"] = f"_PUSH.{name}"
        if random.random() < 0.3:
            config["deliver_group"] = "workers"
        elif random.random() < 0.4:
            config |= {"flow_control": True, "idle_heartbeat": SECOND}
    elif policy != "none" and random.random() < 0.3:
        config["priority_groups"] = ["g"]
        config["priority_policy"] = random.choice(["overflow", "prioritized", "pinned_client"])
        if config["priority_policy"] == "pinned_client":
            config["priority_timeout"] = random.choice([1, 2]) * SECOND
    return config


def reader_filter(random: Random, life: Life) -> str:
    """Return a pattern of some of a stream's subjects."""
    token = random.choice(TOKENS).decode()
    if life.copies or random.random() < 0.1:
        return f"*.*.{token}" if random.random() < 0.5 else f"*.{token}"
    return f"{life.token.decode()}.{token}"
