"""Random publishes, pulls, gets, purges and acknowledgements."""

from __future__ import annotations

from random import Random

from tests.parity.differential_consumers import pull_config
from tests.parity.differential_streams import calm_config
from tests.parity.differential_values import (
    INT_MAX,
    SECOND,
    WRONG,
    Fields,
    Step,
    Value,
    api,
    encoded,
    mutated,
    values,
)

_SMALL = (0, 1, 2, 3, 5, 8, 20)
_HEADERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Nats-Msg-Id": (("1", "2", "3"), ("", " 1", "i" * 300)),
    "Nats-Expected-Stream": (("A",), ("B", "", "a")),
    "Nats-Expected-Last-Sequence": (("0", "1", "2", "3", "4", "5"), ("-1", "x", "", "01", "1 ")),
    "Nats-Expected-Last-Subject-Sequence": (("0", "1", "2", "3", "4"), ("-1", "x", "")),
    "Nats-Expected-Last-Subject-Sequence-Subject": (("a.1", "a.*", "a.>"), ("b.1", "", "a..")),
    "Nats-Expected-Last-Msg-Id": (("1", "2"), ("x", "")),
    "Nats-Rollup": (("sub", "all"), ("SUB", "x", "", "All")),
    "Nats-TTL": (
        ("1h", "3600", "never"),
        ("0", "-1", "1ms", "x", "", "1", "99999999999999", "1.5s"),
    ),
    "Nats-Incr": (
        ("+1", "-1", "+5", "0"),
        ("1", "x", "", "+", "1e3", "+99999999999999999999", "--1"),
    ),
    "Nats-Schedule": (
        ("@at 2099-01-01T00:00:00Z", "@every 1h", "0 0 5 * * *"),
        ("@at x", "@every 1ms", "x", "@hourly", "* * *", "@every -1s", ""),
    ),
    "Nats-Schedule-Target": (("a.t", "a.2"), ("b.1", "a.*", "", "a..")),
    "Nats-Schedule-Source": (("a.1",), ("a.*", "b", "")),
    "Nats-Schedule-TTL": (("1h", "never"), ("x", "0", "1ms")),
    "Nats-Schedule-Time-Zone": (("UTC", "Europe/Paris"), ("Mars",)),
    "Nats-Schedule-Rollup": (("sub",), ("all", "x")),
    "Nats-Batch-Id": (("B", "C"), ("", "i" * 65)),
    "Nats-Batch-Sequence": (("1", "2", "3"), ("0", "x", "", "5", "-1")),
    "Nats-Batch-Commit": (("1", "eob"), ("0", "x", "")),
    "Nats-Required-Api-Level": (("0", "1"), ("9", "x", "-1")),
    "Nats-Marker-Reason": (("Purge", "MaxAge"), ("x",)),
    "X": (("y",), ("", " ")),
}
_TOGETHER = (
    ("Nats-Batch-Id", "Nats-Batch-Sequence"),
    ("Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"),
    ("Nats-Schedule", "Nats-Schedule-Target"),
    ("Nats-Schedule", "Nats-Schedule-Target", "Nats-Schedule-TTL"),
    ("Nats-Schedule", "Nats-Schedule-Target", "Nats-Schedule-Source"),
    ("Nats-Schedule", "Nats-Schedule-Target", "Nats-Rollup"),
    ("Nats-Schedule", "Nats-Schedule-Target", "Nats-Schedule-Time-Zone"),
    ("Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"),
    ("Nats-Incr",),
    ("Nats-Incr", "Nats-Expected-Last-Sequence"),
    ("Nats-TTL", "Nats-Msg-Id"),
    ("Nats-Rollup", "Nats-Expected-Last-Sequence"),
)

PULL: Fields = {
    "batch": ((1, 2, 5, 100), (0, INT_MAX, "1")),
    "no_wait": ((True,), (False,)),
    "max_bytes": ((1, 60, 300, 100_000), (0, INT_MAX)),
    "group": (("g",), ("h", "", 1)),
    "min_pending": ((1, 5), (0, -1, INT_MAX)),
    "min_ack_pending": ((1, 5), (0, -1, INT_MAX)),
    "priority": ((0, 1, 9), (-1, 10)),
    "id": (("",), ("nobody",)),
    "idle_heartbeat": ((0,), (SECOND, -1)),
}
_TIMES = ("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z")
_ODD_TIMES = ("", "x", "0001-01-01T00:00:00Z")
_PATTERNS = ("a.1", "a.2", "a.*", "a.>", ">")
_LAST_PATTERNS = _PATTERNS[:-1]  # `>` differs after a deletion, see deviations.md
_ODD_PATTERNS = ("", "b.1", "*", "a")
GET: Fields = {
    "seq": (_SMALL, (-1, INT_MAX)),
    "last_by_subj": (_LAST_PATTERNS, _ODD_PATTERNS),
    "next_by_subj": (_PATTERNS, _ODD_PATTERNS),
    "batch": ((1, 2, 10), (0, INT_MAX)),  # negative ones differ, see deviations.md
    "max_bytes": ((1, 50, 10_000), (0, -1, INT_MAX)),
    "start_time": (_TIMES, _ODD_TIMES),
    "multi_last": ((["a.1"], ["a.1", "a.2"], ["a.>"]), ([], [""], ["b"], None, ["a.1", "a.1"])),
    "up_to_seq": (_SMALL, (-1, INT_MAX)),
    "up_to_time": (_TIMES, _ODD_TIMES),
    "no_hdr": ((True, False), ()),
}
PURGE: Fields = {
    "filter": (("a.1", "a.2", "a.>", "a.*"), ("", "b", ">", "a..")),
    "seq": ((1, 2, 3, 5), (0, -1, 100, 2**40)),
    "keep": ((1, 2, 3), (0, -1, 100, INT_MAX)),
}


def message_round(rng: Random) -> list[Step]:
    """Return a round that publishes, and looks at what is stored."""
    config = calm_config(rng)
    steps = [api("STREAM.CREATE.A", config)]
    if rng.random() < 0.5:
        features = ("allow_msg_ttl", "allow_rollup_hdrs", "allow_msg_schedules", "allow_atomic")
        config = {"name": "A", "subjects": ["a.>"]} | dict.fromkeys(features, True)
        config |= rng.choice(({}, {}, {"allow_msg_counter": True}, {"max_msgs_per_subject": 2}))
        steps.append(api("STREAM.CREATE.A", config | {"allow_direct": True}))
    else:
        steps.append(api("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"]}))
    if rng.random() < 0.4:
        steps.append(_consumer(rng))
    for _ in range(rng.choice((5, 10, 15))):
        steps.append(_publish(rng))
        if rng.random() < 0.2:
            steps.append(_other(rng))
    steps.append(api("STREAM.INFO.A", {"deleted_details": True, "subjects_filter": ">"}))
    return steps + [step for _ in range(4) for step in (_get(rng), _direct(rng))]


def pull_round(rng: Random) -> list[Step]:
    """Return a round that pulls, acknowledges and removes."""
    config = calm_config(rng)
    steps = [
        api("STREAM.CREATE.A", config),
        api("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"], "allow_direct": True}),
    ]
    if rng.random() < 0.5:
        steps.append(_consumer(rng))
    for _ in range(rng.choice((3, 6, 12))):
        steps.append(Step(f"a.{rng.choice((1, 2, 3))}", b"x" * rng.choice((0, 1, 20))))
    steps += [_consumer(rng), api("CONSUMER.INFO.A.C")]
    kinds = (_pull, _pull, _pull, _acknowledge, _acknowledge, _other, _get, _direct)
    for _ in range(rng.choice((6, 12))):
        step = rng.choice(kinds)(rng)
        if step.subject == "$JS.API.STREAM.PURGE.A":
            step = api("STREAM.PURGE.A", {})  # other floors differ, see deviations.md
        steps.append(step)
        if rng.random() < 0.3:
            steps.append(api("CONSUMER.INFO.A.C"))
    return [*steps, api("CONSUMER.INFO.A.C"), api("STREAM.INFO.A", {"deleted_details": True})]


def _consumer(rng: Random) -> Step:
    return api("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": pull_config(rng)})


def _publish(rng: Random) -> Step:
    names: list[str] = []
    if rng.random() < 0.6:
        names += rng.choice(_TOGETHER)
    if rng.random() < 0.5:
        names += rng.sample(sorted(_HEADERS), rng.choice((1, 1, 2)))
    oddity = rng.choice((0, 0, 0.3))
    headers = tuple(
        f"{name}: {rng.choice(_HEADERS[name][rng.random() < oddity])}" for name in names
    )
    if headers and rng.random() < 0.03:
        headers = rng.choice((("Nats-Msg-Id",), ("Nats-Msg-Id 1",), (": x",), ("nats-msg-id: 1",)))
    body = b"" if "Nats-Incr" in names and rng.random() < 0.9 else b"x" * rng.choice((0, 1, 90))
    return Step(f"a.{rng.choice((1, 1, 2, 3))}", body, headers)


def _pull(rng: Random) -> Step:
    if rng.random() < 0.1:
        text = rng.choice((b"", b"2", b"0", b"-1", b"x", b"[]", b"{", b'{"batch":1,}'))
        return Step("$JS.API.CONSUMER.MSG.NEXT.A.C", text, silence_ms=60, linger_ms=15)
    body: dict[str, Value] = values(rng, PULL, rng.choice((0.1, 0.3)), 0.15)
    if not body.get("no_wait"):
        body["expires"] = rng.choice((20, 40)) * 1_000_000
    if rng.random() < 0.03:
        body[rng.choice(sorted(PULL))] = rng.choice(WRONG)
    return Step("$JS.API.CONSUMER.MSG.NEXT.A.C", encoded(body), silence_ms=120, linger_ms=50)


def _acknowledge(rng: Random) -> Step:
    bodies = (b"+ACK", b"-NAK", b"+TERM", b"+WPI", b"", b"+TERM why", b"+NXT", b"x", b"-NAK {}")
    return Step(f"ack {rng.randrange(6)}", rng.choice(bodies), silence_ms=40)


def _get(rng: Random) -> Step:
    return api("STREAM.MSG.GET.A", _selection(rng))


def _direct(rng: Random) -> Step:
    subject, body = "$JS.API.DIRECT.GET.A", encoded(_selection(rng))
    if rng.random() < 0.15:
        subject += rng.choice((".a.1", ".a.2", ".b", ".a.*"))
        body = rng.choice((b"", body))
    return Step(subject, body, silence_ms=60, linger_ms=15)


def _selection(rng: Random) -> dict[str, Value]:
    body = rng.choice(
        (
            {"seq": rng.choice(_SMALL)},
            {"last_by_subj": rng.choice(_LAST_PATTERNS)},
            {"next_by_subj": rng.choice(_PATTERNS), "seq": rng.choice(_SMALL)},
            {"batch": 3, "seq": rng.choice(_SMALL)},
            {"batch": 3, "next_by_subj": rng.choice(_PATTERNS)},
            {"multi_last": ["a.>"]},
            {"start_time": rng.choice(_TIMES)},
            {},
        )
    )
    return mutated(rng, body, GET, 0.2) if rng.random() < 0.5 else body


def _other(rng: Random) -> Step:
    kind = rng.random()
    if kind < 0.4:
        return api("STREAM.PURGE.A", values(rng, PURGE, 0.5, 0.1))
    if kind < 0.7:
        body: dict[str, Value] = {"seq": rng.choice((0, 1, 2, 3, 4, 100))}
        if rng.random() < 0.3:
            body["no_erase"] = rng.choice((True, False))
        return api("STREAM.MSG.DELETE.A", body)
    if kind < 0.8:
        until = rng.choice(("2099-01-01T00:00:00Z", "2020-01-01T00:00:00Z", *_ODD_TIMES))
        return api("CONSUMER.PAUSE.A.C", rng.choice(({"pause_until": until}, {}, {"x": 1})))
    if kind < 0.9:
        return api("CONSUMER.RESET.A.C", rng.choice(({}, {"seq": rng.choice((1, 2, 5, 0))}, None)))
    return api("CONSUMER.UNPIN.A.C", rng.choice(({"group": "g"}, {"group": "h"}, {}, None)))
