"""Mirrors of streams in the same account, through the API, on simulated time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.protocol.ops import PubRun

SET_UP = 300 * MILLISECOND
Stored = tuple[int, bytes, bytes, bytes, int]


def create(account: Any, name: str, **config: Any) -> dict[str, Any]:
    return dict(account.ask(f"STREAM.CREATE.{name}", {"name": name, **config}))


def fill(account: Any, name: str, count: int) -> None:
    for number in range(count):
        account.now += 1000
        account.publish(b"%b.%d" % (name.lower().encode(), number % 3), b"m%d" % number)
    account.turn()


def contents(account: Any, name: str) -> list[Stored]:
    store = account.catalog.streams[name].store
    found = [store.load(sequence) for sequence in range(1, store.last_seq + 1)]
    return [(m.sequence, m.subject, m.headers, m.payload, m.timestamp) for m in found if m]


def mirror_info(account: Any, name: str = "M") -> dict[str, Any]:
    return dict(account.ask(f"STREAM.INFO.{name}")["mirror"])


def direct_gets(account: Any, subject: bytes) -> list[bytes]:
    """Return who answers a direct get, by asking every member of the queue group."""
    inbox = b"_INBOX.direct"
    listener = account.listen(inbox)
    for group in account.sublist.match(subject).queues:
        for member in group:
            run = PubRun.single(subject, inbox, b"", b'{"seq":1}')
            member.receiver.receive(Stretch(run, 0, 1, member, None, account.now))
    account.turn()
    lines = [message[2].split(b"\r\n") for message in listener.received]
    return sorted(line for block in lines for line in block if line.startswith(b"Nats-Stream:"))


def test_sequences_and_times_are_kept(transfers: Any) -> None:
    transfers.stream("O")
    fill(transfers, "O", 20)
    transfers.ask("STREAM.MSG.DELETE.O", {"seq": 7})
    answer = create(transfers, "M", mirror={"name": "O"})
    assert answer["mirror"] == {"name": "O", "lag": 0, "active": -1}
    transfers.advance(SET_UP)
    assert contents(transfers, "M") == contents(transfers, "O")
    fill(transfers, "O", 5)
    assert contents(transfers, "M") == contents(transfers, "O")
    info = mirror_info(transfers)
    assert (info["name"], info["lag"]) == ("O", 0)
    assert info["active"] >= 0
    assert transfers.ask("CONSUMER.NAMES.O")["consumers"] == []


def test_many_messages_come_through_flow_control(transfers: Any) -> None:
    transfers.stream("O", count=300, size=50_000)  # 15 MB, the first window is 2 MiB
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SET_UP)
    assert contents(transfers, "M") == contents(transfers, "O")


def test_it_begins_where_the_origin_does(transfers: Any) -> None:
    transfers.stream("O", count=10)
    transfers.ask("STREAM.PURGE.O", {"seq": 6})
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SET_UP)
    state = transfers.ask("STREAM.INFO.M")["state"]
    assert (state["first_seq"], state["last_seq"], state.get("num_deleted")) == (6, 10, None)


def test_what_a_filter_leaves_out_is_missing(transfers: Any) -> None:
    transfers.stream("O", count=9)
    create(transfers, "M", mirror={"name": "O", "filter_subject": "o.1"})
    transfers.advance(SET_UP)
    assert [message[0] for message in contents(transfers, "M")] == [2, 5, 8]
    state = transfers.ask("STREAM.INFO.M", {"deleted_details": True})["state"]
    assert (state["first_seq"], state["deleted"]) == (2, [3, 4, 6, 7])


def test_it_goes_on_after_a_restart(transfers: Any, make_transfers: Callable[[], Any]) -> None:
    transfers.stream("O")
    fill(transfers, "O", 5)
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SET_UP)
    transfers.catalog.stop(transfers.now)
    transfers.commit.drain()
    again = make_transfers()
    fill(again, "O", 5)
    again.advance(SET_UP)
    assert len(contents(again, "M")) == 10
    assert contents(again, "M") == contents(again, "O")
    states = [again.ask(f"STREAM.INFO.{name}")["state"] for name in "OM"]
    assert states[0]["first_ts"] == states[1]["first_ts"]
    assert states[0]["last_ts"] == states[1]["last_ts"]


def test_an_origin_that_is_made_later(transfers: Any) -> None:
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SECOND)
    assert mirror_info(transfers)["error"]["err_code"] == 10059
    transfers.stream("O", count=3)
    transfers.advance(SET_UP)
    assert contents(transfers, "M") == contents(transfers, "O")
    assert "error" not in mirror_info(transfers)


def test_an_origin_that_is_made_anew(transfers: Any) -> None:
    transfers.stream("O", count=3)
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SET_UP)
    before = contents(transfers, "M")
    transfers.ask("STREAM.DELETE.O")
    transfers.stream("O")
    fill(transfers, "O", 5)
    transfers.advance(11 * SECOND)
    assert contents(transfers, "M") == before + contents(transfers, "O")[3:]


def made_anew_as_a_work_queue(transfers: Any, old: int, new: int) -> None:
    """Have a mirror of a stream that is then made anew, as a work queue with other messages."""
    transfers.stream("O", count=old)
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SET_UP)
    transfers.ask("STREAM.DELETE.O")
    transfers.advance(SECOND)
    transfers.stream("O", retention="workqueue")
    fill(transfers, "O", new)
    for _ in range(30):
        transfers.advance(SECOND)


def test_what_is_passed_over_is_not_acknowledged(transfers: Any) -> None:
    made_anew_as_a_work_queue(transfers, 10, 5)
    assert [message[0] for message in contents(transfers, "O")] == [1, 2, 3, 4, 5]
    told = [text for level, text in transfers.logged if level == "WRN" and "another one" in text]
    assert told == [
        "mirror 'M': message 1 of 'O' is another one than was stored before; it is left where it is"
    ]
    # What is new by its number is stored; none before it is acknowledged by that.
    fill(transfers, "O", 8)
    for _ in range(5):
        transfers.advance(SECOND)
    assert len(contents(transfers, "M")) == 13
    assert {*range(1, 11)} <= {message[0] for message in contents(transfers, "O")}


def test_what_was_passed_over_is_not_acknowledged_after_a_restart_either(
    transfers: Any, make_transfers: Callable[[], Any]
) -> None:
    """It is older than what was stored of the new stream since, and not here."""
    transfers.stream("O", count=9)
    create(transfers, "M", mirror={"name": "O", "filter_subject": "o.2"})  # 3, 6 and 9
    transfers.advance(SET_UP)
    transfers.ask("STREAM.DELETE.O")
    transfers.advance(SECOND)
    transfers.stream("O", retention="workqueue")
    for number in range(20):
        transfers.publish(b"o.%d" % (2 if number in (0, 1, 15, 16) else 1), b"new")
    for _ in range(15):
        transfers.advance(SECOND)
    assert [message[0] for message in contents(transfers, "M")] == [3, 6, 9, 16, 17]
    transfers.catalog.stop(transfers.now)
    transfers.commit.drain()
    again = make_transfers()
    for _ in range(15):
        again.advance(SECOND)
    assert {1, 2} <= {message[0] for message in contents(again, "O")}


def outlived_by_new_ones(transfers: Any, **config: Any) -> None:
    """Have a mirror with limits whose messages are all of the second of two origins by one name,
    which has nine that were passed over."""
    transfers.stream("O", count=9)
    create(transfers, "M", mirror={"name": "O"}, max_msgs=2, **config)
    transfers.advance(SET_UP)
    transfers.ask("STREAM.DELETE.O")
    transfers.advance(SECOND)
    transfers.stream("O", retention="workqueue")
    fill(transfers, "O", 15)
    for _ in range(15):
        transfers.advance(SECOND)
    assert [message[0] for message in contents(transfers, "M")] == [14, 15]
    assert len(contents(transfers, "O")) == 15


def test_what_was_passed_over_is_known_when_nothing_of_the_old_origin_is_left(
    transfers: Any, make_transfers: Callable[[], Any]
) -> None:
    outlived_by_new_ones(transfers)
    for _ in range(2):
        transfers.catalog.stop(transfers.now)
        transfers.commit.drain()
        transfers = make_transfers()
        for _ in range(15):
            transfers.advance(SECOND)
        assert len(contents(transfers, "O")) == 15
    told = [text for level, text in transfers.logged if level == "WRN" and "mirror 'M'" in text]
    assert told == [
        "mirror 'M': message 1 of 'O' may be another one than was stored before;"
        " it is left where it is"
    ]


def test_what_was_passed_over_is_known_by_a_mirror_in_memory_that_was_given_up(
    transfers: Any,
) -> None:
    outlived_by_new_ones(transfers, storage="memory")
    stream = transfers.catalog.streams["M"]
    stream.sourcing.abandon()
    stream.sourcing.follow_config(transfers.now)
    for _ in range(15):
        transfers.advance(SECOND)
    assert len(contents(transfers, "O")) == 15


def test_what_was_passed_over_is_on_the_disk_before_what_is_behind_it(transfers: Any) -> None:
    """Not even with it: a full disk may have room for the one and not for the other."""
    transfers.stream("O", count=9)
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SET_UP)
    transfers.ask("STREAM.DELETE.O")
    transfers.advance(SECOND)
    transfers.stream("O", retention="workqueue")
    fill(transfers, "O", 15)
    folder = transfers.catalog.streams["M"].folder
    flushes: dict[int, int] = {}  # when the note was first found, and when what is behind it
    while len(flushes) < 2:
        transfers.advance(SECOND // 10)
        note = json.loads(folder.sources().load())
        if note["passed_until"] == 9:
            flushes.setdefault(9, transfers.commit.taken)
        if (last := contents(transfers, "M")[-1][0]) > 9:
            assert note["passed_until"] == 9
            flushes.setdefault(last, transfers.commit.taken)
    assert flushes[9] < flushes[15]


def test_what_is_gone_from_a_mirror_without_a_note_is_not_acknowledged(
    transfers: Any, make_transfers: Callable[[], Any], tmp_path: Path
) -> None:
    """As of one that an older version has left, or one that was restored."""
    outlived_by_new_ones(transfers)
    transfers.catalog.stop(transfers.now)
    transfers.commit.drain()
    (notes,) = tmp_path.rglob("M/sources/state.*")
    content = notes.read_bytes()
    for damaged in (None, content[:-1], b"", content.replace(b"passed_until", b"passed-until")):
        if damaged is None:
            notes.unlink()
        else:
            notes.write_bytes(damaged)
        again = make_transfers()
        for _ in range(15):
            again.advance(SECOND)
        assert len(contents(again, "O")) == 15
        again.catalog.stop(again.now)
        again.commit.drain()
        (notes,) = tmp_path.rglob("M/sources/state.*")


def test_what_is_gone_from_a_mirror_that_was_restored_is_not_acknowledged(transfers: Any) -> None:
    outlived_by_new_ones(transfers)
    _, archive = transfers.snapshot("M")
    transfers.ask("STREAM.DELETE.M")
    answer = transfers.restore("M", archive, subjects=[], mirror={"name": "O"}, max_msgs=2)
    assert answer["state"]["last_seq"] == 15
    for _ in range(15):
        transfers.advance(SECOND)
    fill(transfers, "O", 5)
    for _ in range(5):
        transfers.advance(SECOND)
    assert [message[0] for message in contents(transfers, "M")] == [19, 20]
    assert len(contents(transfers, "O")) == 20


def test_what_is_there_is_acknowledged_by_a_mirror_without_a_note(
    transfers: Any, make_transfers: Callable[[], Any], tmp_path: Path
) -> None:
    transfers.stream("O", retention="workqueue")
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SET_UP)
    fill(transfers, "O", 6)
    assert len(contents(transfers, "O")) == 6  # flow control has not asked yet
    transfers.catalog.stop(transfers.now)
    transfers.commit.drain()
    for notes in tmp_path.rglob("M/sources/state.*"):
        notes.unlink()
    again = make_transfers()
    for _ in range(20):
        again.advance(SECOND)
    assert contents(again, "O") == []
    assert len(contents(again, "M")) == 6


def test_a_third_origin_is_known_behind_what_was_passed_over_of_the_second(
    transfers: Any, make_transfers: Callable[[], Any]
) -> None:
    """Others take what it has below; what it has above is not what the mirror stored."""
    outlived_by_new_ones(transfers)
    transfers.ask("STREAM.DELETE.O")
    transfers.advance(SECOND)
    transfers.stream("O", retention="workqueue")
    fill(transfers, "O", 30)
    for _ in range(30):
        transfers.advance(SECOND)
    assert [message[0] for message in contents(transfers, "M")] == [29, 30]
    transfers.ask("STREAM.PURGE.O", {"seq": 10})
    transfers.catalog.stop(transfers.now)
    transfers.commit.drain()
    again = make_transfers()
    for _ in range(15):
        again.advance(SECOND)
    assert [message[0] for message in contents(again, "O")] == [*range(10, 31)]


def test_what_a_mirror_no_longer_has_is_known_by_its_time(transfers: Any) -> None:
    transfers.stream("O", count=10)
    create(transfers, "M", mirror={"name": "O"}, max_msgs=1)
    transfers.advance(SET_UP)
    transfers.ask("STREAM.DELETE.O")
    transfers.advance(SECOND)
    transfers.stream("O", retention="workqueue")
    fill(transfers, "O", 5)
    for _ in range(30):
        transfers.advance(SECOND)
    assert len(contents(transfers, "O")) == 5


def test_what_was_stored_before_its_ack_got_lost_is_acknowledged(
    transfers: Any, make_transfers: Callable[[], Any]
) -> None:
    transfers.stream("O", retention="workqueue")
    create(transfers, "M", mirror={"name": "O"}, max_msgs=3)
    transfers.advance(SET_UP)
    fill(transfers, "O", 6)
    assert len(contents(transfers, "O")) == 6  # flow control has not asked yet
    transfers.catalog.stop(transfers.now)
    transfers.commit.drain()
    again = make_transfers()
    for _ in range(20):
        again.advance(SECOND)
    assert [message[0] for message in contents(again, "M")] == [4, 5, 6]
    assert contents(again, "O") == []


def test_subjects_are_renamed(transfers: Any) -> None:
    transfers.stream("O", count=3)
    rules = [{"src": "o.1", "dest": ""}, {"src": "o.*", "dest": "z.$1"}]
    assert create(transfers, "M", mirror={"name": "O", "subject_transforms": rules})["error"]
    rules = [{"src": "o.1", "dest": "x"}, {"src": "o.2", "dest": ""}]
    create(transfers, "M", mirror={"name": "O", "subject_transforms": rules})
    transfers.advance(SET_UP)
    assert [message[:2] for message in contents(transfers, "M")] == [(2, b"x"), (3, b"o.2")]


@pytest.mark.parametrize("plain", [True, False])
def test_it_stays_before_a_subject_that_its_renaming_makes_too_long(
    transfers: Any, plain: bool
) -> None:
    transfers.stream("O")
    rules = [{"src": "o.*", "dest": "o." + ".".join(["$1"] * 60)}]
    more = {} if plain else {"max_msgs": 100, "discard": "new"}
    create(transfers, "M", mirror={"name": "O", "subject_transforms": rules}, **more)
    transfers.advance(SET_UP)
    for token in (b"a", b"b", b"x" * 1100, b"c"):
        transfers.publish(b"o." + token, b"m")
    transfers.advance(5 * SECOND)
    held = [message[1][:4] for message in contents(transfers, "M")]
    assert held == [b"o.a.", b"o.b."]
    told = [text for _, text in transfers.logged if "refused" in text]
    assert told == ["mirror 'M': the message after 2 of 'O' is refused: subject too long"]
    transfers.ask("STREAM.MSG.DELETE.O", {"seq": 3})
    transfers.advance(60 * SECOND)
    assert [message[0] for message in contents(transfers, "M")] == [1, 2, 4]


def test_ttls_and_rollups_count_where_they_are_allowed(transfers: Any) -> None:
    transfers.stream("O", allow_msg_ttl=True, allow_rollup_hdrs=True)
    create(transfers, "M", mirror={"name": "O"}, allow_msg_ttl=True, allow_rollup_hdrs=True)
    create(transfers, "N", mirror={"name": "O"})
    transfers.advance(SET_UP)
    for subject, line in ((b"o.1", b""), (b"o.2", b"Nats-TTL: 1s"), (b"o.1", b"Nats-Rollup: sub")):
        headers = b"NATS/1.0\r\n%b\r\n\r\n" % line if line else b""
        run = PubRun.single(subject, b"", headers, b"m")
        transfers.catalog.streams["O"].receive(Stretch(run, 0, 1, None, None, transfers.now))
        transfers.turn()
    assert [message[0] for message in contents(transfers, "M")] == [2, 3]
    assert [message[0] for message in contents(transfers, "N")] == [1, 2, 3]
    transfers.advance(2 * SECOND)
    assert [message[0] for message in contents(transfers, "M")] == [3]
    assert [message[0] for message in contents(transfers, "N")] == [1, 2, 3]


def test_its_own_limits_hold(transfers: Any) -> None:
    transfers.stream("O", count=10)
    create(transfers, "M", mirror={"name": "O"}, max_msgs=3)
    transfers.advance(SET_UP)
    assert [message[0] for message in contents(transfers, "M")] == [8, 9, 10]


def test_a_full_mirror_waits_for_room(transfers: Any) -> None:
    transfers.stream("O", count=5)
    create(transfers, "M", mirror={"name": "O"}, max_msgs=2, discard="new")
    transfers.advance(SET_UP)
    assert [message[0] for message in contents(transfers, "M")] == [1, 2]
    transfers.ask("STREAM.PURGE.M", {"keep": 1})
    transfers.advance(5 * SECOND)
    assert [message[0] for message in contents(transfers, "M")] == [2, 3]


def test_an_update_makes_a_stream_of_it(transfers: Any) -> None:
    transfers.stream("O", count=3)
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SET_UP)
    consumers = transfers.catalog.streams["O"].consumers
    assert len(consumers) == 1
    answer = transfers.ask("STREAM.UPDATE.M", {"name": "M", "subjects": ["m.>"]})
    assert "mirror" not in answer
    assert not consumers
    fill(transfers, "M", 1)
    fill(transfers, "O", 1)
    assert [message[:2] for message in contents(transfers, "M")][3:] == [(4, b"m.0")]


def test_deleting_it_leaves_nothing(transfers: Any) -> None:
    transfers.stream("O", count=3, allow_direct=True)
    count = transfers.sublist.count
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SET_UP)
    transfers.ask("STREAM.DELETE.M")
    inboxes = sum(sub.subject.startswith(b"_INBOX.") for sub in transfers.sublist)
    assert not transfers.catalog.streams["O"].consumers
    assert transfers.sublist.count - inboxes == count - 1  # the one inbox of before


def test_it_answers_for_its_origin(transfers: Any) -> None:
    transfers.stream("O", count=3, allow_direct=True)
    answer = create(transfers, "M", mirror={"name": "O"}, mirror_direct=False)
    assert answer["config"]["mirror_direct"]
    subject = b"$JS.API.DIRECT.GET.O"
    assert direct_gets(transfers, subject) == [b"Nats-Stream: O"]  # not caught up yet
    transfers.advance(SET_UP)
    assert direct_gets(transfers, subject) == [b"Nats-Stream: M", b"Nats-Stream: O"]
    assert direct_gets(transfers, subject + b".o.0") == []  # a body beside a subject is no request
    transfers.ask("STREAM.UPDATE.O", {"name": "O", "subjects": ["o.>"]})
    transfers.ask("STREAM.UPDATE.M", {"name": "M", "mirror": {"name": "O"}})
    assert direct_gets(transfers, subject) == []


def test_a_work_queue_keeps_what_is_not_mirrored_yet(transfers: Any) -> None:
    transfers.stream("W", retention="workqueue")
    fill(transfers, "W", 5)
    stored = contents(transfers, "W")
    create(transfers, "M", mirror={"name": "W"})
    transfers.advance(SET_UP)
    assert contents(transfers, "W") == stored
    (consumer,) = transfers.ask("CONSUMER.LIST.W")["consumers"]
    assert consumer["name"] == "JS_MIRROR_ih8eMwqr"
    assert consumer["config"]["ack_policy"] == "flow_control"
    transfers.advance(1500 * MILLISECOND)
    assert contents(transfers, "W") == []
    assert contents(transfers, "M") == stored


def test_a_work_queue_is_taken_up_again_where_it_was_left(
    transfers: Any, make_transfers: Callable[[], Any]
) -> None:
    transfers.stream("W", retention="workqueue")
    fill(transfers, "W", 5)
    create(transfers, "M", mirror={"name": "W"})
    transfers.advance(SET_UP)
    transfers.catalog.stop(transfers.now)  # nothing is acknowledged yet
    transfers.commit.drain()
    again = make_transfers()
    fill(again, "W", 2500)  # more than may be pending without an ack
    again.advance(3 * SECOND)
    assert [message[0] for message in contents(again, "M")] == list(range(1, 2506))
    assert contents(again, "W") == []


def test_a_mirror_of_a_mirror(transfers: Any) -> None:
    create(transfers, "N", mirror={"name": "M"})
    create(transfers, "M", mirror={"name": "O"})
    transfers.stream("O")
    transfers.advance(SECOND)
    fill(transfers, "O", 5)
    assert contents(transfers, "N") == contents(transfers, "O")


def test_nobody_publishes_to_it(transfers: Any) -> None:
    transfers.stream("O")
    create(transfers, "M", mirror={"name": "O"})
    transfers.advance(SET_UP)
    assert transfers.request("M", b"x") == b"silence"


def test_a_client_may_listen_too(transfers: Any) -> None:
    transfers.stream("O", count=2)
    create(transfers, "M", mirror={"name": "O"})
    listener = transfers.listen(b"$JS.M.*")
    transfers.advance(SET_UP)
    assert [message[3] for message in listener.received[:2]] == [
        message[3] for message in contents(transfers, "O")
    ]
    assert contents(transfers, "M") == contents(transfers, "O")


def test_answers_to_requests_for_copying_name_the_stream(transfers: Any) -> None:
    transfers.stream("O")
    listener = transfers.listen(b"answer")
    config = {"name": "C", "deliver_subject": "x", "direct": True, "sourcing": True}
    body = json.dumps({"stream_name": "O", "config": config}).encode()
    transfers.publish(b"$JS.API.CONSUMER.CREATE.O", body, b"answer")
    transfers.turn()
    ((_, _, headers, payload),) = listener.received
    assert headers.startswith(b"NATS/1.0\r\nNats-Stream-Identity: ")
    assert len(headers) == len(b"NATS/1.0\r\nNats-Stream-Identity: 12345678\r\n\r\n")
    assert json.loads(payload)["name"].startswith("C-")
    assert isinstance(next(iter(transfers.sublist)), Subscription)


def test_what_others_took_from_a_work_queue_is_not_left_for_a_mirror(transfers: Any) -> None:
    """A consumer that a mirror left behind counts what is there."""
    transfers.stream("W", retention="workqueue")
    config = {"name": "X", "deliver_subject": "x", "direct": True, "sourcing": True}
    config |= {"flow_control": True, "idle_heartbeat": SECOND}
    transfers.ask("CONSUMER.CREATE.W.X", {"stream_name": "W", "config": config})
    fill(transfers, "W", 5)
    durable = {"durable_name": "C", "ack_policy": "explicit"}
    transfers.ask("CONSUMER.CREATE.W.C", {"stream_name": "W", "config": durable})
    assert transfers.ask("CONSUMER.INFO.W.X")["num_pending"] == 5
    listener = transfers.listen(b"got")
    transfers.publish(b"$JS.API.CONSUMER.MSG.NEXT.W.C", b'{"batch":5,"no_wait":true}', b"got")
    transfers.turn()
    assert len(listener.received) == 5
    for message in listener.received:
        transfers.publish(message[1], b"")
    transfers.turn()
    assert contents(transfers, "W") == []
    assert transfers.ask("CONSUMER.INFO.W.X")["num_pending"] == 0
