"""A stream from an archive: what is wrong with it is said in the genuine server's words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.snapshots.archive import END, MAGIC, encode_entry
from jetstream_server.jetstream.snapshots.rebuild import Rebuild, RebuildError
from jetstream_server.jetstream.snapshots.s2 import STREAM_IDENTIFIER, frames
from jetstream_server.jetstream.streams.messages import publish_headers

from tests.traced_lines import lines_of

CONSUMER = b'{"config":{"durable_name":"C","name":"C","ack_policy":"explicit"},"state":{}}'


def state(**fields: Any) -> bytes:
    known = {"messages": 2, "first_seq": 1, "last_seq": 2, "consumer_count": 0}
    return encode_entry(b"state.json", 1, json.dumps(known | fields).encode())


def message(sequence: int, subject: bytes = b"r.a", headers: bytes = b"") -> bytes:
    return encode_entry(subject, 1000 + sequence % 100, b"pay", sequence=sequence, headers=headers)


TWO = message(1) + message(2)


def snapshot(*parts: bytes) -> bytes:
    return STREAM_IDENTIFIER + frames(MAGIC + b"".join(parts))


def whole(*parts: bytes) -> bytes:
    return snapshot(*parts, END)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "EOF"),
        (b"garbage garbage", "s2: corrupt input"),
        (STREAM_IDENTIFIER + frames(b"hello world"), "archive/tar: invalid tar header"),
        (snapshot(), "EOF"),
        (whole(), "expected state.json first"),
        (whole(TWO), "expected state.json first"),
        (snapshot(state(), TWO), "EOF"),
        (whole(state(), TWO)[:-7], "s2: corrupt input"),
        (snapshot(state(), TWO[:-3]), "failed to read message sequence 2: archive: invalid"),
        (whole(encode_entry(b"state.json", 1, b"{nope")), "error in state.json: invalid char"),
        (whole(state(messages=7), TWO), "invalid stream state: message count exceeds"),
        (whole(state(last_seq=2**64 - 1), TWO), "invalid stream state: sequence is too large"),
        (whole(state(), message(2), message(1)), "message sequence 1 out of order"),
        (whole(state(), message(1), message(1)), "message sequence 1 out of order"),
        (whole(state(first_seq=2, messages=1), TWO), "message sequence 1 out of order"),
        (whole(state(), message(2**63)), f"message sequence {2**63} out of order"),
        (whole(state(), message(0)), "expected message sequence"),
        (whole(state(), encode_entry(b"consumers/C", 1, CONSUMER)), "expected message sequence"),
        (whole(state(consumer_count=1), TWO), 'expected consumer, found "r.a"'),
        (
            whole(state(consumer_count=1), encode_entry(b"consumers/C", 1, b"{}")),
            'consumer "C" is missing config',
        ),
        (
            whole(state(), message(1, b"r..b")),
            "failed to store message sequence 1: expected sequence does not match store",
        ),
        (whole(state(), message(1, b"r." + b"x" * 65_534)), "archive: invalid archive stream"),
    ],
)
def test_archives_that_are_refused(transfers, data: bytes, text: str) -> None:
    assert transfers.refusal(data).startswith(text)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"max_msg_size": 2}, "message sequence 1 exceeds maximum message size"),
        (
            {"first_seq": 5},
            "failed to store message sequence 1: expected sequence does not match store",
        ),
        (
            {"max_msgs": 1, "discard": "new"},
            "failed to store message sequence 2: maximum messages exceeded",
        ),
        (
            {"num_replicas": 3},
            "error adding stream: replicas > 1 not supported in non-clustered mode (10074)",
        ),
        (
            {"subjects": ["s.a"]},
            "error adding stream: subjects overlap with an existing stream (10065)",
        ),
    ],
)
def test_configs_that_are_refused(transfers, config: dict[str, Any], text: str) -> None:
    transfers.stream("S")
    assert transfers.refusal(whole(state(), TWO), **config) == text


def test_a_message_as_large_as_allowed_comes_back(transfers) -> None:
    headers = b"NATS/1.0\r\nA: b\r\n\r\n"
    body = message(1) + message(2, headers=headers)
    answer = transfers.restore("R", whole(state(), body), max_msg_size=len(headers) + len(b"pay"))
    assert answer["state"]["messages"] == 2


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize(
    ("fields", "body", "expected"),
    [
        ({}, TWO, (2, 1, 2, 0)),
        ({"first_seq": 3, "last_seq": 9}, message(3) + message(5), (2, 3, 9, 5)),
        ({"first_seq": 2, "last_seq": 9}, message(3) + message(5), (2, 3, 9, 5)),
        ({"messages": 0, "first_seq": 11, "last_seq": 10}, b"", (0, 11, 10, 0)),
        ({"messages": 0, "first_seq": 0, "last_seq": 0}, b"", (0, 1, 0, 0)),
        ({}, TWO + message(3), (3, 1, 3, 0)),
        ({}, TWO + END + b"what follows the end is not looked at", (2, 1, 2, 0)),
        ({}, message(1, b"other.subject", b"no headers") + message(2), (2, 1, 2, 0)),
    ],
)
def test_state_comes_back(
    transfers, storage: str, fields: dict[str, Any], body: bytes, expected: tuple[int, ...]
) -> None:
    answer = transfers.restore("R", whole(state(**fields), body), storage=storage)
    found = answer["state"]
    names = ("messages", "first_seq", "last_seq", "num_deleted")
    assert tuple(found.get(name, 0) for name in names) == expected
    assert list(answer) == ["type", "config", "created", "state", "ts"]


LONG = b"9" * 5000
HOSTILE = (LONG, b"-" + LONG, "O \u00b2 > > x".encode(), b"\xff\xfe", b"O " + LONG + b" > > x")
HOSTILE += (b'{"a":{"b":"' + LONG + b'"}}', b'{"a":{"b":1}}', b"[]", b"@every " + LONG + b"s")
HOSTILE += (b"@at " + LONG, b"0 0 0 " + LONG + b" 1 *", b"1e400", b"0x10", b" ", b"O  > > ")
HEADERS = [
    value for name, value in vars(publish_headers).items() if name.isupper() and name[0] != "_"
]


@pytest.mark.parametrize(
    "config",
    [
        {"allow_atomic": True},
        {"sources": [{"name": "O"}]},
        {"mirror": {"name": "O"}, "subjects": []},
        {"allow_msg_ttl": True},
        {"allow_msg_counter": True},
        {"allow_msg_counter": True, "sources": [{"name": "O"}]},
        {"allow_msg_schedules": True, "allow_msg_ttl": True},
        {"allow_batched": True},
        {"retention": "workqueue"},
    ],
    ids=str,
)
def test_headers_that_a_backup_makes_up_harm_nobody(
    transfers, make_transfers, config: dict[str, Any]
) -> None:
    names = [name for each in HEADERS for name in (each if isinstance(each, tuple) else (each,))]
    blocks = [
        b"NATS/1.0\r\n%b: b\r\nNats-Batch-Id: b\r\n%b: %b\r\n\r\n" % (b"X", name, value)
        for name in names
        for value in HOSTILE
    ]
    step = 12
    for start in range(0, len(blocks), step):
        some = blocks[start : start + step]
        for last in some:  # what comes last decides what a start makes of it
            some = [*(each for each in some if each is not last), last]
        messages = [message(n + 1, headers=block) for n, block in enumerate(some)]
        known = state(messages=len(some), last_seq=len(some))
        answer = transfers.restore("R", whole(known, *messages), **config)
        assert "error" not in answer or answer["error"]["err_code"] == 10062
        transfers.advance(SECOND)
        if "error" not in answer:
            transfers.ask("STREAM.DELETE.R")
    transfers.restore("R", whole(known, *messages), **config)
    transfers.advance(SECOND)
    transfers.catalog.stop(transfers.now)
    transfers.commit.drain()
    again = make_transfers()
    again.catalog.recover(again.now)
    again.advance(SECOND)
    assert again.catalog.names() == ["R"] and not again.catalog.offline


def test_limits_of_the_config_hold(transfers) -> None:
    answer = transfers.restore("R", whole(state(), TWO), max_msgs=1)
    assert answer["state"]["first_seq"] == 2


def test_metadata_is_as_it_was_saved(transfers) -> None:
    saved = {"_nats.req.level": "9", "a": "b"}
    answer = transfers.restore("R", whole(state(), TWO), metadata=saved)
    assert saved.items() <= answer["config"]["metadata"].items()
    assert transfers.catalog.streams["R"].config.metadata == saved


def test_a_sealed_stream(transfers) -> None:
    answer = transfers.restore("R", whole(state(), TWO), sealed=True)
    assert answer["config"]["sealed"] and answer["config"]["deny_delete"]


def test_work_queues_drop_what_was_acked(transfers) -> None:
    pending = {"2": {"Sequence": 2, "Timestamp": 1}}
    position = {"consumer_seq": 1, "stream_seq": 1}
    done = {"consumer_seq": 2, "stream_seq": 2}
    body = json.loads(CONSUMER)
    body["state"] = {"delivered": done, "ack_floor": position, "pending": pending}
    consumer = encode_entry(b"consumers/C", 1, json.dumps(body).encode())
    data = whole(state(consumer_count=1), consumer, TWO)
    answer = transfers.restore("R", data, retention="interest")
    assert answer["state"]["messages"] == 1 and answer["state"]["consumer_count"] == 1
    info = transfers.ask("CONSUMER.INFO.R.C")
    assert info["num_ack_pending"] == 1 and info["ack_floor"]["stream_seq"] == 1


@pytest.mark.parametrize(
    ("names", "config", "text"),
    [
        ("CD", {"max_consumers": 1}, "maximum consumers limit reached (10026)"),
        ("CC", {}, "consumer already exists (10148)"),
        (
            "CD",
            {"retention": "workqueue"},
            "multiple non-filtered consumers not allowed on workqueue stream (10099)",
        ),
    ],
)
def test_consumers_that_do_not_go_together(
    transfers, names: str, config: dict[str, Any], text: str
) -> None:
    consumers = b"".join(
        encode_entry(b"consumers/x", 1, CONSUMER.replace(b'"C"', b'"%b"' % name.encode()))
        for name in names
    )
    data = whole(state(consumer_count=2), consumers, TWO)
    assert transfers.refusal(data, **config) == f'failed to add consumer "x": {text}'


def test_a_work_queue_takes_no_consumer_that_a_client_could_not_make(transfers) -> None:
    body = json.loads(CONSUMER)
    body["config"]["ack_policy"] = "all"
    consumer = encode_entry(b"consumers/x", 1, json.dumps(body).encode())
    data = whole(state(consumer_count=1), consumer, TWO)
    text = transfers.refusal(data, retention="workqueue")
    assert text == 'failed to add consumer "x": workqueue stream requires explicit ack (10098)'


def test_the_name_is_taken_while_it_is_made(transfers) -> None:
    config = StreamConfig(name="R", subjects=["r.>"])
    rebuild = Rebuild(transfers.catalog, config)
    taken = transfers.ask("STREAM.CREATE.R", {"name": "R", "subjects": ["r.>"]})
    assert taken["error"]["err_code"] == 10058
    overlapping = transfers.ask("STREAM.CREATE.T", {"name": "T", "subjects": ["r.a"]})
    assert overlapping["error"]["err_code"] == 10065
    with pytest.raises(RebuildError, match="already in use, cannot restore"):
        Rebuild(transfers.catalog, config)
    assert transfers.ask("STREAM.INFO.R")["error"]["err_code"] == 10059
    rebuild.abandon(transfers.now)
    assert "did_create" in transfers.ask("STREAM.CREATE.R", {"name": "R", "subjects": ["r.>"]})


def test_an_account_that_is_full(transfers) -> None:
    transfers.catalog.limit(type(transfers.catalog.limits)(max_storage=60))
    text = transfers.refusal(whole(state(), TWO))
    assert text == "failed to store message sequence 2: resource limits exceeded for account"


def filled(transfers: Any, count: int, **config: Any) -> Rebuild:
    """Return what has read a stream of two messages with so many consumers."""
    consumers = b"".join(
        encode_entry(b"consumers/c", 1, CONSUMER.replace(b'"C"', b'"c%d"' % number))
        for number in range(count)
    )
    rebuild = Rebuild(transfers.catalog, StreamConfig(name="R", subjects=["r.>"], **config))
    rebuild.feed(whole(state(consumer_count=count), consumers, TWO))
    while rebuild.advance():
        pass
    return rebuild


def is_heard(transfers: Any, consumer: str) -> bool:
    subject = f"$JS.API.CONSUMER.MSG.NEXT.R.{consumer}".encode()
    return bool(transfers.catalog.context.sublist.match(subject).plain)


def test_nobody_finds_it_before_it_has_all_its_consumers(transfers) -> None:
    """What one of them has read would leave an interest stream while the others are not known."""
    steps = filled(transfers, 20, retention="interest").finish(transfers.now)
    hidden, begun = 0, []
    for _ in steps:
        found = transfers.catalog.streams.get("R")
        if found is None:
            assert transfers.ask("STREAM.INFO.R")["error"]["err_code"] == 10059
            assert transfers.ask("STREAM.CREATE.R", {"name": "R"})["error"]["err_code"] == 10058
            assert not is_heard(transfers, "c0")
            hidden += 1
            continue
        assert begun or found.consumers.keys() == {f"c{number}" for number in range(20)}
        begun.append([is_heard(transfers, f"c{number}") for number in range(20)].count(True))
        if len(begun) == 1:
            assert transfers.ask("CONSUMER.DELETE.R.c19")["success"]
    assert hidden >= 5 and begun == sorted(set(begun)) and begun[-1] >= 16
    assert all(is_heard(transfers, f"c{number}") for number in range(19))
    assert not is_heard(transfers, "c19"), "it was deleted meanwhile"
    assert transfers.catalog.streams["R"].store.state().messages == 2


def test_called_off_before_it_serves_nothing_is_left(transfers) -> None:
    before = transfers.files()
    rebuild = filled(transfers, 20)
    steps = rebuild.finish(transfers.now)
    for _ in range(3):
        next(steps)
    rebuild.abandon(transfers.now)
    transfers.turn()
    assert transfers.files() == before
    assert not transfers.catalog.restoring and not transfers.catalog.streams
    assert "did_create" in transfers.ask("STREAM.CREATE.R", {"name": "R", "subjects": ["r.>"]})


def test_called_off_while_its_consumers_begin_it_is_removed(transfers) -> None:
    before = transfers.files()
    rebuild = filled(transfers, 20)
    for _ in rebuild.finish(transfers.now):
        if transfers.catalog.streams:
            break
    rebuild.abandon(transfers.now)
    transfers.turn()
    assert transfers.files() == before
    assert not transfers.catalog.restoring and not transfers.catalog.streams


def test_filters_of_a_work_queue_are_compared_some_at_a_time(transfers) -> None:
    """20,000 of two consumers took 200 ms."""

    def reader(name: str, first: int) -> bytes:
        body = json.loads(CONSUMER.replace(b'"C"', b'"%b"' % name.encode()))
        body["config"]["filter_subjects"] = [f"r.*.{n}" for n in range(first, first + 10_000)]
        return encode_entry(b"consumers/" + name.encode(), 1, json.dumps(body).encode())

    for name, first in (("d", 10_000), ("d", 19_999), ("d", 9_999)):
        consumers = reader("c", 0) + reader(name, first)
        config = StreamConfig(name="R", subjects=["r.>"], retention="workqueue")
        rebuild = Rebuild(transfers.catalog, config)
        rebuild.feed(whole(state(consumer_count=2), consumers, TWO))
        lines: list[int] = []
        try:
            while not rebuild.is_complete:
                lines.append(lines_of(rebuild.advance))
            assert first != 9_999
        except RebuildError as error:
            assert first == 9_999 and "not unique" in str(error)
        assert len(lines) > 20 and max(lines) < 400_000, max(lines)
        rebuild.abandon(transfers.now)
