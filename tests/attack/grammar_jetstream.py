"""What an attacker says to JetStream: streams, messages and consumers, a grammar for each feature.

A function yields a few steps that belong together, in the right order; chance leaves some out,
spoils others, and mixes in what belongs to another feature.
"""

from __future__ import annotations

import json
from typing import Any

from jetstream_server.jetstream.api.dispatch import HANDLERS
from jetstream_server.jetstream.api.request import ROUTES

from tests.attack.acts import Heard, Publish, Steps
from tests.attack.draws import CONSUMERS, RAW, SECOND, STREAMS, TEXTS, Draw

assert HANDLERS  # importing them is what fills the routes
PATTERNS = tuple(sorted(".".join(route.pattern) for route in ROUTES))

# -- streams -----------------------------------------------------------------------------------

KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"retention": "workqueue"},
    {"retention": "interest"},
    {"allow_msg_counter": True},
    {"allow_msg_schedules": True},
    {"allow_atomic": True, "allow_batched": True},
    {"allow_msg_ttl": True, "subject_delete_marker_ttl": SECOND, "max_age": 5 * SECOND},
    {"max_msgs_per_subject": 1, "allow_rollup_hdrs": True, "allow_direct": True},
    {"max_msgs": 3, "discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 2},
    {"duplicate_window": SECOND, "max_bytes": 3000, "max_msg_size": 500},
    {"compression": "s2"},
    {"sealed": False, "deny_delete": True, "deny_purge": True},
    {"republish": {"src": ">", "dest": "republished.>", "headers_only": False}},
    {"subject_transform": {"src": "s0.*", "dest": "s0.{{wildcard(1)}}.x"}},
    {"first_seq": 2**63 - 5},
    {"max_consumers": 1, "consumer_limits": {"inactive_threshold": SECOND, "max_ack_pending": 2}},
    {"persist_mode": "async"},
    {"placement": {"cluster": "", "tags": ["x"]}, "metadata": {"k": "v", "_nats.req.level": "9"}},
)  # fmt: skip
EXTRA = {
    "description": "x", "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0,
    "num_replicas": 1, "no_ack": False, "pedantic": True, "max_msg_size": -1,
    "mirror_direct": False, "sealed": True, "discard": "old", "unheard_of": 1,
}  # fmt: skip


def _origin(draw: Draw) -> dict[str, Any]:
    number = draw.random.randrange(6)
    origin: dict[str, Any] = {"name": STREAMS[number]}
    if draw.often(0.3):
        origin["filter_subject"] = f"s{number}.>"
    if draw.often(0.3):
        origin["subject_transforms"] = [{"src": f"s{number}.>", "dest": f"copied.{number}.>"}]
        origin.pop("filter_subject", None)
    if draw.often(0.2):
        origin["opt_start_seq"] = draw.number()
    if draw.often(0.1):
        origin["opt_start_time"] = "2026-01-02T03:04:05Z"
    if draw.often(0.1):
        origin["external"] = {"api": draw.one(("$JS.hub.API", "from", "$JS.API")), "deliver": "d.>"}
    if draw.often(0.1):
        origin["consumer"] = {"name": "C0", "deliver_subject": "prepared"}
    return draw.spoiled(origin)


def stream_config(draw: Draw, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": name, "storage": draw.one(("file", "memory"))}
    number = name[1:] if name in STREAMS else "0"
    kind = draw.random.randrange(8)
    if kind == 0:
        fields["mirror"] = _origin(draw)
    elif kind == 1:
        fields["sources"] = [_origin(draw) for _ in range(draw.random.randint(1, 3))]
        if draw.often(0.5):
            fields["subjects"] = [f"s{number}.>"]
    else:
        fields["subjects"] = (
            [f"s{number}.>"] if draw.often(0.8) else [draw.pattern(), draw.pattern()]
        )
    for _ in range(draw.one((0, 1, 1, 2))):
        fields |= draw.one(KINDS)
    if draw.often(0.3):
        key = draw.one(tuple(EXTRA))
        fields[key] = EXTRA[key]
    return fields


def request(draw: Draw, subject: str, fields: dict[str, Any], who: int = 0) -> Publish:
    """Return a request to the API."""
    headers = b""
    if draw.often(0.05):
        headers = draw.block([(b"Nats-Required-Api-Level", draw.digits())])
    head = "$JS.API." + subject
    if draw.often(0.02):
        head = draw.one(("$JS.hub.API.", "$JS.\x00.API.", "from.API.")) + subject
    data = head.encode(errors="surrogatepass").replace(b" ", b"_").replace(b"\r", b"_")
    if draw.is_rude and draw.often(0.1):
        words = data.split(b".")
        words[draw.random.randrange(len(words))] = (
            draw.one(RAW).replace(b" ", b"").replace(b"\r", b"")
        )
        data = b".".join(words)
    return Publish(who, data, draw.reply(), headers, draw.body(fields) if fields else b"")


def making_streams(draw: Draw) -> Steps:
    """Streams of all kinds are made, changed, looked at, purged and deleted."""
    for _ in range(draw.random.randint(1, 3)):
        name = draw.stream()
        yield request(draw, f"STREAM.CREATE.{name}", stream_config(draw, name))
    if draw.often(0.4):
        name = draw.stream()
        yield request(draw, f"STREAM.UPDATE.{name}", stream_config(draw, name))
    if draw.often(0.3):
        asked = {"offset": 0, "deleted_details": True, "subjects_filter": draw.pattern()}
        yield request(draw, f"STREAM.INFO.{draw.stream()}", asked)
    if draw.often(0.2):
        yield request(draw, "STREAM.LIST", {"offset": 0, "subject": draw.pattern()})
    if draw.often(0.2):
        purged = {"filter": draw.pattern(), "seq": draw.number(), "keep": draw.number()}
        purged.pop(draw.one(tuple(purged)))
        yield request(draw, f"STREAM.PURGE.{draw.stream()}", purged)
    if draw.often(0.2):
        removed = {"seq": draw.number(), "no_erase": draw.often(0.5)}
        yield request(draw, f"STREAM.MSG.DELETE.{draw.stream()}", removed)
    if draw.often(0.1):
        yield request(draw, f"STREAM.DELETE.{draw.stream()}", {})


def any_request(draw: Draw) -> Steps:
    """Any subject of the API with the body of any other."""
    subject = draw.one(PATTERNS)
    words = []
    for word in subject.split("."):
        if word in ("*", ">"):
            word = draw.one((draw.stream(), draw.consumer(), draw.text() or "x"))
        words.append(word)
    fields = draw.one(
        (stream_config(draw, "S0"), consumer_config(draw), {"batch": 1}, {}, {"seq": 1})
    )
    yield request(draw, ".".join(words), fields, draw.one((0, 0, 0, 1, 2, 3, 4)))


def templates(draw: Draw) -> Steps:
    """Templates, and streams that they make."""
    fields = {
        "name": "K",
        "config": stream_config(draw, "S5") | {"subjects": ["made.*"]},
        "max_streams": 2,
    }
    yield request(draw, "STREAM.TEMPLATE.CREATE.K", fields)
    for _ in range(draw.random.randrange(4)):
        yield Publish(0, b"made." + draw.one(LEAVES_MADE), draw.reply(), b"", b"x")
    yield request(draw, draw.one(("STREAM.TEMPLATE.DELETE.K", "STREAM.TEMPLATE.INFO.K")), {})


LEAVES_MADE = (b"S0", b"one", b"\xff", b"x" * 300, b"two")

# -- messages ----------------------------------------------------------------------------------


def _increment(draw: Draw) -> bytes:
    return (
        draw.one((b"1", b"+1", b"-5", b"0", b"9" * 30, b"1" + b"0" * 3999))
        if draw.often(0.7)
        else draw.digits()
    )


def headers_of_a_feature(draw: Draw) -> list[tuple[bytes, bytes]]:
    """Return headers of one feature, and maybe of another one."""
    seconds = draw.one((b"1s", b"never", b"1", b"-1", b"1h", b"0", b"9999999999h"))
    batch = draw.one((b"b1", b"b2", b"x" * 64, b"x" * 65))
    features: list[list[tuple[bytes, bytes]]] = [
        [(b"Nats-Msg-Id", draw.one((b"1", b"2", b"x" * 3000, b"\xff")))],
        [(b"Nats-Expected-Stream", draw.one((b"S0", b"S1", b"\xff")))],
        [(b"Nats-Expected-Last-Sequence", draw.digits())],
        [(b"Nats-Expected-Last-Subject-Sequence", draw.digits()),
         (b"Nats-Expected-Last-Subject-Sequence-Subject", draw.pattern().encode(errors="replace"))],
        [(b"Nats-Expected-Last-Msg-Id", b"1")],
        [(b"Nats-Rollup", draw.one((b"sub", b"all", b"x")))],
        [(b"Nats-TTL", seconds if draw.often(0.7) else draw.digits())],
        [(b"Nats-Incr", _increment(draw))],
        [(b"Nats-Incr", b"1"),
         (b"Nats-Counter-Sources", draw.one((b'{"S1":{"s1.a":"5"}}', b"{", b'{"a":1}')))],
        [(b"Nats-Batch-Id", batch), (b"Nats-Batch-Sequence", draw.digits())],
        [(b"Nats-Batch-Id", batch), (b"Nats-Batch-Sequence", draw.digits()),
         (b"Nats-Batch-Commit", draw.one((b"1", b"eob", b"x")))],
        [(b"Nats-Schedule", draw.one((b"@every 1s", b"@at 2026-01-02T03:04:05Z", b"* * * * * *",
                                      b"@at 2023-11-14T22:13:22Z", b"@hourly", draw.one(RAW)))),
         (b"Nats-Schedule-Target", draw.subject()), (b"Nats-Schedule-TTL", seconds)],
        [(b"Nats-Schedule", b"@every 1s"), (b"Nats-Schedule-Target", draw.subject()),
         (b"Nats-Schedule-Source", draw.subject()), (b"Nats-Schedule-Rollup", b"sub")],
        [(b"Nats-Schedule", b"0 0 30 2 * *"), (b"Nats-Schedule-Time-Zone", draw.one(
            (b"America", b"Europe/Berlin", b"../x", b"UTC", b"\xff", b"x" * 300))),
         (b"Nats-Schedule-Target", draw.subject())],
        [(b"Nats-Scheduler", draw.subject()), (b"Nats-Schedule-Next", draw.digits())],
        [(b"Nats-Stream-Source", draw.one(
            (b"S1 1 > > s1.a", b"O \xc2\xb2 > > x", b"S1:x 9" + b"9" * 99, b"")))],
        [(b"Nats-Marker-Reason", draw.one((b"MaxAge", b"Purge", b"x")))],
        [(b"Nats-Required-Api-Level", draw.digits())],
        [(b"Nats-Request-Info", draw.one((b"{}", b"{", b'{"acc":1}')))],
        [(b"Nats-Stream", b"S1"), (b"Nats-Sequence", draw.digits()),
         (b"Nats-Subject", draw.subject())],
        [(draw.one(RAW).replace(b"\r", b""), draw.one(RAW).replace(b"\r", b""))],
    ]  # fmt: skip
    chosen = draw.one(features)
    if draw.often(0.2):
        chosen = [*chosen, *draw.one(features)]
    return chosen


def publishing(draw: Draw) -> Steps:
    """Messages with the headers of every feature, to every kind of stream."""
    for _ in range(draw.random.randint(1, 6)):
        headers = draw.block(headers_of_a_feature(draw)) if draw.often(0.7) else b""
        payload = draw.one(
            (b"", b"x", b"5", b'{"val":"7"}', b'{"val":"' + b"9" * 99 + b'"}', b"x" * 600)
        )
        yield Publish(draw.one((0, 0, 1, 4)), draw.subject(), draw.reply(), headers, payload)


def batches(draw: Draw) -> Steps:
    """Atomic and fast batches, whole and in pieces."""
    subject = draw.subject()
    if draw.often(0.5):
        count = draw.random.randint(1, 6)
        for number in range(1, count + 1):
            position = b"%d" % number if draw.often(0.95) else draw.digits()
            headers = [(b"Nats-Batch-Id", b"atom"), (b"Nats-Batch-Sequence", position)]
            if number == count and draw.often(0.8):
                headers.append((b"Nats-Batch-Commit", b"1"))
            if draw.often(0.2):
                headers += headers_of_a_feature(draw)
            yield Publish(0, subject, draw.reply(), draw.block(headers), b"x")
        return
    name = draw.one((b"f1", b"f2", b"\xff", b"x" * 65))
    for number in range(1, draw.random.randint(2, 7)):
        parts = [b"_INBOX.r", name, draw.one((b"2", b"10", b"0")), draw.one((b"ok", b"fail")),
                 b"%d" % number, draw.one((b"0" if number == 1 else b"1", b"2", b"3", b"4")),
                 b"$FI"]  # fmt: skip
        if draw.is_rude:
            parts[draw.random.randrange(1, 6)] = (
                draw.one(RAW).replace(b" ", b"").replace(b"\r", b"")
            )
        headers = draw.block(headers_of_a_feature(draw)) if draw.often(0.1) else b""
        yield Publish(0, subject, b".".join(parts), headers, b"x")


def fast_batches(draw: Draw) -> Steps:
    """Fast batches as clients send them: begun, added to, pinged and committed, one beside the
    other, with gaps, with numbers given twice, and with features that they cannot have."""
    if draw.often(0.4):
        fields = {"name": "S4", "subjects": ["s4.>"], "allow_batched": True, **draw.one(KINDS)}
        yield request(draw, "STREAM.CREATE.S4", fields)
    subject = draw.one((b"s4.a", b"s4.b", draw.subject()))
    names = [b"%b%d" % (draw.one((b"q", b"w")), draw.random.randrange(3)) for _ in range(2)]
    flow, gap = draw.one((b"1", b"2", b"10")), draw.one((b"ok", b"fail"))
    numbers = dict.fromkeys(names, 0)
    for _ in range(draw.random.randint(2, 14)):
        name = draw.one(names)
        numbers[name] += draw.one((1, 1, 1, 1, 1, 1, 0, 2))
        number = numbers[name]
        kinds = (b"1", b"1", b"1", b"1", b"2", b"3", b"4")
        operation = b"0" if number == 1 else draw.one(kinds)
        if draw.is_rude:
            operation = draw.one((b"0", b"5", b"-1", b"", b"9" * 20))
        parts = [b"_INBOX.r", name, flow, gap, b"%d" % number, operation, b"$FI"]
        headers = draw.block(headers_of_a_feature(draw)) if draw.often(0.1) else b""
        yield Publish(0, subject, b".".join(parts), headers, b"x" * draw.one((0, 1, 600)))
        if draw.often(0.05):
            change = {"name": "S4", "subjects": ["s4.>"], "allow_batched": draw.often(0.5)}
            yield request(draw, "STREAM.UPDATE.S4", change)
        if operation in (b"2", b"3") and draw.often(0.7):
            numbers[name] = 0


def getting(draw: Draw) -> Steps:
    """Direct and other gets."""
    wishes: list[dict[str, Any]] = [
        {"seq": draw.number()},
        {"last_by_subj": draw.pattern()},
        {"next_by_subj": draw.pattern(), "seq": draw.number()},
        {"batch": draw.number(), "seq": 1, "max_bytes": draw.number()},
        {"multi_last": [draw.pattern(), draw.pattern()], "up_to_seq": draw.number()},
        {"multi_last": [">"] * draw.one((1, 30)), "up_to_time": "2026-01-02T03:04:05Z", "batch": 2},
        {"start_time": draw.one(("2023-01-02T03:04:05Z", "9999-12-31T23:59:59Z")), "batch": 1},
        {"no_hdr": True, "seq": 1},
    ]
    wish = draw.one(wishes)
    name = draw.stream()
    if draw.often(0.6):
        yield request(draw, f"DIRECT.GET.{name}", wish)
    elif draw.often(0.5):
        yield request(draw, f"STREAM.MSG.GET.{name}", wish)
    else:
        yield request(draw, f"DIRECT.GET.{name}.s0.a", {})


# -- consumers ---------------------------------------------------------------------------------


def consumer_config(draw: Draw) -> dict[str, Any]:
    name = draw.consumer()
    fields: dict[str, Any] = {
        "name": name,
        "ack_policy": draw.one(("explicit", "explicit", "all", "none", "flow_control")),
    }
    if draw.often(0.6):
        fields["durable_name"] = name
    if draw.often(0.4):
        fields |= {"deliver_subject": draw.one(("_INBOX.push", "push.x", "s0.a", "a.b")),
                   "flow_control": True, "idle_heartbeat": draw.one((SECOND, 10**8))}  # fmt: skip
        if draw.often(0.2):
            fields["deliver_group"] = "g"
        if draw.often(0.2):
            fields["rate_limit_bps"] = draw.number()
    else:
        if draw.often(0.2):
            fields |= {
                "priority_groups": ["A"],
                "priority_policy": draw.one(("overflow", "pinned_client", "prioritized")),
            }
        if draw.often(0.2):
            fields |= {"max_waiting": 2, "max_batch": 5, "max_expires": SECOND, "max_bytes": 100}
    options: dict[str, Any] = {
        "deliver_policy": draw.one(("all", "last", "new", "last_per_subject", "by_start_sequence",
        "by_start_time")),
        "opt_start_seq": draw.number(), "opt_start_time": "2026-01-02T03:04:05Z",
        "ack_wait": draw.duration(), "max_deliver": draw.one((1, 2, -1)), "backoff": [SECOND,
        2 * SECOND],
        "filter_subject": draw.pattern(), "filter_subjects": [draw.pattern(), draw.pattern()],
        "replay_policy": "original", "sample_freq": draw.one(("100%", "50", "x")),
        "max_ack_pending": draw.one((1, 2, -1)), "headers_only": True,
        "inactive_threshold": draw.duration(),
        "mem_storage": True, "direct": True, "sourcing": True, "metadata": {"k": "v"},
        "pause_until": draw.one(("2023-11-14T22:13:25Z", "9999-12-31T23:59:59Z")),
        "priority_timeout": SECOND,
    }  # fmt: skip
    for _ in range(draw.one((0, 1, 2, 4))):
        key = draw.one(tuple(options))
        fields[key] = options[key]
    return fields


def making_consumers(draw: Draw) -> Steps:
    """Consumers of all kinds are made, changed, paused, reset and deleted."""
    for _ in range(draw.random.randint(1, 2)):
        stream = draw.stream()
        config = consumer_config(draw)
        fields = {
            "stream_name": stream,
            "config": config,
            "action": draw.one(("", "create", "update")),
        }
        form = draw.one(
            (
                "CREATE.{s}.{c}",
                "CREATE.{s}.{c}",
                "CREATE.{s}",
                "DURABLE.CREATE.{s}.{c}",
                "CREATE.{s}.{c}.{f}",
            )
        )
        subject = form.format(s=stream, c=config["name"], f=config.get("filter_subject", "s0.>"))
        yield request(draw, "CONSUMER." + subject, fields)
    name = f"{draw.stream()}.{draw.consumer()}"
    if draw.often(0.2):
        yield request(draw, f"CONSUMER.PAUSE.{name}", {"pause_until": draw.one(TEXTS)})
    if draw.often(0.2):
        yield request(draw, f"CONSUMER.RESET.{name}", {"seq": draw.number()})
    if draw.often(0.2):
        yield request(draw, f"CONSUMER.UNPIN.{name}", {"group": "A"})
    if draw.often(0.3):
        yield request(draw, f"CONSUMER.INFO.{name}", {})
    if draw.often(0.1):
        yield request(draw, f"CONSUMER.DELETE.{name}", {})


def pulling(draw: Draw) -> Steps:
    """Pulls, and acks of what came, with tokens broken."""
    for _ in range(draw.random.randint(1, 3)):
        fields: dict[str, Any] = {"batch": draw.one((1, 5, 100)), "expires": draw.duration()}
        options: dict[str, Any] = {
            "no_wait": True, "idle_heartbeat": draw.duration(), "max_bytes": draw.number(),
            "group": "A", "id": draw.text(), "min_pending": draw.number(), "min_ack_pending": 1,
            "priority": draw.number(),
        }  # fmt: skip
        for _ in range(draw.random.randrange(3)):
            key = draw.one(tuple(options))
            fields[key] = options[key]
        wish = request(draw, f"CONSUMER.MSG.NEXT.{draw.one(STREAMS)}.{draw.one(CONSUMERS)}", fields)
        if draw.often(0.2):
            body = draw.one((b"", b"1", b"5", b"-1", b"9" * 5000, b"no_wait", b"{"))
            wish = Publish(0, wish.subject, wish.reply, b"", body)
        yield wish
    yield from acking(draw)


def acking(draw: Draw) -> Steps:
    """Acks of every kind to what was delivered, or nearly."""
    for _ in range(draw.random.randint(1, 5)):
        breaks: list[tuple[int, bytes | None]] = []
        while draw.is_rude and len(breaks) < 4:
            piece = draw.one(RAW).replace(b" ", b"").replace(b"\r", b"")
            breaks.append((draw.random.randrange(12), None if draw.often(0.1) else piece))
        delay = draw.number()
        payload = draw.one((
            b"", b"+ACK", b"-NAK", b'-NAK {"delay": %s}' % json.dumps(delay).encode(),
            b"-NAK " + draw.digits(),
            b"+WPI", b"+TERM", b"+TERM " + draw.one(RAW), b"+NXT", b"+NXT 5",
            b"+NXT " + draw.digits(),
            b'+NXT {"batch":2,"expires":1000000000}', b"+NXT {", b"x", b"-NAK 1h",
            b'-NAK {"delay":1e400}',
        ))  # fmt: skip
        reply = draw.reply() if draw.often(0.5) else b""
        yield Publish(
            0, Heard("ack", draw.random.randrange(16), tuple(breaks)), reply, b"", payload
        )
