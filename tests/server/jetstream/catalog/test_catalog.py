"""The catalog: limits over several streams, recovery, what is damaged, the turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.base.nuid import Nuid
from jetstream_server.core import subject as subjects
from jetstream_server.core import transform as transforms
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.core.workload import UNIT_NS, UNITS_OF_TIMERS, UNITS_OF_TURN, Workload
from jetstream_server.jetstream.catalog import catalog as catalogs
from jetstream_server.jetstream.catalog import outages
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.catalog.metering import Usage
from jetstream_server.jetstream.configs import origin_checks
from jetstream_server.jetstream.configs.account_limits import AccountLimits, ServerLimits
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import (
    OriginConfig,
    RePublish,
    StreamConfig,
    SubjectTransform,
)
from jetstream_server.jetstream.consumers.consumer_creation import create_consumer
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Output, Publish
from jetstream_server.jetstream.streams import audience
from jetstream_server.jetstream.streams.removal.removal import Removal
from jetstream_server.jetstream.wire import go_json
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.vault import FileVault, MemoryVault

START = 1_700_000_000 * SECOND


def make_catalog(
    vault: MemoryVault | None = None,
    limits: AccountLimits | None = None,
    server_limits: ServerLimits | None = None,
    peers: list[Catalog] | None = None,
) -> Catalog:
    sublist = Sublist()
    context = Context("$G", "srv", "", sublist, Output(sublist), Nuid(Random(1)))
    return Catalog(context, vault or MemoryVault(), limits, server_limits, peers or [])


def config(name: str, **fields: Any) -> StreamConfig:
    return StreamConfig(name=name, **fields)


def publish(catalog: Catalog, subject: bytes, payload: bytes = b"x") -> bytes:
    """Publish with a reply; return the answer."""
    run = PubRun.single(subject, b"_INBOX.r", b"", payload)
    output = catalog.context.output
    output.sends.clear()
    output.sends_after_flush.clear()
    for subscription in catalog.context.sublist.match(subject).plain:
        subscription.receiver.receive(Stretch(run, 0, 1, subscription, None, START))
    sends = output.sends + output.sends_after_flush
    return b"".join(send.run.payload(0) for send in sends if isinstance(send, Publish))


def refusal(action: Callable[[], object]) -> int:
    with pytest.raises(ApiError) as caught:
        action()
    return caught.value.err_code


def test_a_stream_is_made_found_changed_and_removed() -> None:
    catalog = make_catalog()
    made = catalog.create(config("S", subjects=["s.>"]), START)
    assert catalog.stream("S") is made and made.created == START
    assert b'"seq":1' in publish(catalog, b"s.a")
    assert catalog.update("S", config("S", subjects=["t.>"]), START) is made
    assert publish(catalog, b"s.a") == b""
    assert b'"seq":2' in publish(catalog, b"t.a")
    catalog.delete("S", START)
    assert publish(catalog, b"t.a") == b""
    assert refusal(lambda: catalog.stream("S")) == 10059
    assert refusal(lambda: catalog.delete("S", START)) == 10059


def test_a_refused_stream_leaves_nothing_behind() -> None:
    vault = MemoryVault()
    catalog = make_catalog(vault)
    catalog.create(config("S"), START)
    assert refusal(lambda: catalog.create(config("T", subjects=["S"]), START)) == 10065
    assert refusal(lambda: catalog.create(config("U", max_age=-1), START)) == 10052
    assert vault.folders() == ["S"] and catalog.names() == ["S"]


def test_streams_are_found_by_subject() -> None:
    catalog = make_catalog()
    catalog.create(config("B", subjects=["x.*", "b"]), START)
    catalog.create(config("A", subjects=["a.>"]), START)
    assert catalog.names() == ["A", "B"]
    assert catalog.names("a.b.c") == ["A"]
    assert catalog.names("*.b") == ["A", "B"]
    assert catalog.names("c") == []


# -- limits ----------------------------------------------------------------------------------------


def test_the_number_of_streams_is_limited_but_not_for_what_exists() -> None:
    catalog = make_catalog(limits=AccountLimits(max_streams=1))
    catalog.create(config("S"), START)
    assert refusal(lambda: catalog.create(config("T", max_age=-1), START)) == 10027
    assert catalog.create(config("S"), START).name == "S"
    assert refusal(lambda: catalog.create(config("S", max_msgs=1), START)) == 10058


def test_room_for_a_stream_that_is_there() -> None:
    catalog = make_catalog(server_limits=ServerLimits(max_storage=1000))
    catalog.create(config("A", max_bytes=600), START, names_storage=True)
    assert catalog.create(config("A", max_bytes=600), START).name == "A"
    again = config("A", max_bytes=600)
    assert refusal(lambda: catalog.create(again, START, names_storage=True)) == 10047


def test_reservations_of_an_account() -> None:
    catalog = make_catalog(limits=AccountLimits(max_memory=100, max_storage=1000))
    catalog.create(config("A", max_bytes=600), START)
    assert refusal(lambda: catalog.create(config("B", max_bytes=600), START)) == 10047
    catalog.create(config("B", max_bytes=400), START)
    memory = config("M", storage="memory", max_bytes=101)
    assert refusal(lambda: catalog.create(memory, START)) == 10028
    assert refusal(lambda: catalog.update("A", config("A", max_bytes=601), START)) == 10047
    catalog.update("A", config("A", max_bytes=600, description="same"), START)
    catalog.update("A", config("A", max_bytes=100), START)
    assert catalog.usage() == Usage(reserved_storage=500)


def test_max_consumers_of_a_stream_stays_below_the_accounts() -> None:
    catalog = make_catalog(limits=AccountLimits(max_consumers=2))
    assert refusal(lambda: catalog.create(config("S", max_consumers=3), START)) == 10026


def test_the_server_limits_all_accounts_together() -> None:
    catalogs: list[Catalog] = []
    limits = ServerLimits(max_storage=1000)
    for _ in range(2):
        catalogs.append(make_catalog(server_limits=limits, peers=catalogs))
    catalogs[0].create(config("A", max_bytes=600), START)
    assert refusal(lambda: catalogs[1].create(config("B", max_bytes=600), START)) == 10047
    catalogs[1].create(config("B", max_bytes=400), START)


def test_publishing_beyond_the_accounts_storage_is_refused() -> None:
    catalog = make_catalog(limits=AccountLimits(max_memory=100))
    catalog.create(config("S", storage="memory"), START)
    assert b'"seq":1' in publish(catalog, b"S", b"x" * 40)
    assert b'"err_code":10002' in publish(catalog, b"S", b"x" * 60)
    assert catalog.usage().memory <= 100


def test_publishing_beyond_the_servers_storage_is_refused_once_it_is_exceeded() -> None:
    catalogs: list[Catalog] = []
    for _ in range(2):
        limits = ServerLimits(max_memory=100)
        catalogs.append(make_catalog(server_limits=limits, peers=catalogs))
    for catalog in catalogs:
        catalog.create(config("S", storage="memory"), START)
    assert b'"seq":1' in publish(catalogs[0], b"S", b"x" * 200)
    assert b'"err_code":10023' in publish(catalogs[1], b"S", b"x")


def test_limits_that_consumers_exceed_are_refused() -> None:
    catalog = make_catalog()
    stream = catalog.create(config("S"), START)
    for name in ("cb", "ca"):
        asked = ConsumerConfig(durable_name=name, ack_policy="explicit", max_ack_pending=50)
        create_consumer(stream, asked, START)
    tighter = config("S", consumer_limits={"max_ack_pending": 20})
    with pytest.raises(ApiError) as caught:
        catalog.update("S", tighter, START)
    assert caught.value.err_code == 10069
    assert caught.value.description == "change to limits violates consumers: ca, cb"


# -- recovery --------------------------------------------------------------------------------------


def restarted(vault: MemoryVault) -> Catalog:
    catalog = make_catalog(vault)
    catalog.recover(START + SECOND)
    return catalog


def test_streams_and_consumers_come_back() -> None:
    vault = MemoryVault()
    before = make_catalog(vault)
    stream = before.create(config("S", subjects=["s.*"], metadata={"team": "x"}), START)
    before.update("S", config("S", subjects=["s.*"], description="new"), START + 5)
    publish(before, b"s.a")
    create_consumer(stream, ConsumerConfig(durable_name="C", ack_policy="explicit"), START)
    after = restarted(vault)
    found = after.stream("S")
    assert found.config == stream.config and found.config.description == "new"
    assert found.created == START
    assert list(found.consumers) == ["C"]
    assert b'"seq":2' in publish(after, b"s.a")
    assert after.consumer_count() == 1


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b"{", "the config file can not be read"),
        (b'{"config":{"name":"S"}}', "the config file can not be read: 'created'"),
        (b'{"config":[],"created":"2023-01-01T00:00:00Z"}', "the config file can not be read"),
        (b'{"config":{"name":"S"},"created":"x"}', "the config file can not be read"),
        (
            b'{"config":{"name":"T"},"created":"2023-01-01T00:00:00Z"}',
            "the config file is that of stream T",
        ),
        (
            b'{"config":{"name":"S","metadata":{"_nats.req.level":"9"}},'
            b'"created":"2023-01-01T00:00:00Z"}',
            "unsupported - required API level: 9, current API level: 4",
        ),
    ],
)
def test_a_stream_that_cannot_be_opened_is_offline_and_others_serve(
    stored: bytes, reason: str
) -> None:
    vault = MemoryVault()
    before = make_catalog(vault)
    for name in ("R", "S"):
        before.create(config(name), START)
    vault.folder("S", memory=False).config().save(stored)
    notes: list[str] = []
    catalog = make_catalog(vault)
    catalog.context.log = lambda level, text: notes.append(f"{level} {text}")
    catalog.recover(START)
    assert catalog.names() == ["R", "S"]
    assert catalog.stream("R").name == "R" and catalog.offline_reason("R") == ""
    assert catalog.offline_reason("S").startswith(reason)
    assert len(notes) == 1 and notes[0].startswith(f"ERR stream S of account $G: {reason}")
    assert refusal(lambda: catalog.stream("S")) == 10194
    assert refusal(lambda: catalog.update("S", config("S"), START)) == 10194
    assert refusal(lambda: catalog.create(config("S"), START)) == 10194
    catalog.delete("S", START)
    assert catalog.names() == ["R"] and vault.folders() == ["R"]


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_a_stream_that_lost_its_config_is_served_again_when_it_is_created_again(
    sim_disk_module: ModuleType, content: bytes | None
) -> None:
    disk = sim_disk_module.SimDisk(Random(1))
    root = Path("/store/jetstream")

    def started() -> tuple[Catalog, GroupCommit]:
        commit = GroupCommit(disk)
        catalog = make_catalog(FileVault(root, "$G", commit, disk))
        catalog.recover(START)
        return catalog, commit

    before, commit = started()
    stream = before.create(config("S"), START)
    create_consumer(stream, ConsumerConfig(durable_name="C", ack_policy="explicit"), START)
    publish(before, b"S")
    before.stop(START)
    commit.drain()
    path = root / "$G" / "streams" / "S" / "meta.json"
    disk.remove(path) if content is None else disk.put(path, content)
    assert "meta.json" in started()[0].offline_reason("S")  # looking at it changes nothing
    catalog, commit = started()
    assert "meta.json" in catalog.offline_reason("S")
    assert refusal(lambda: catalog.stream("S")) == 10194
    assert refusal(lambda: catalog.create(config("S", storage="memory"), START)) == 10194
    assert catalog.create(config("S"), START).store.last_seq == 1
    assert list(catalog.stream("S").consumers) == ["C"]
    assert catalog.offline_reason("S") == ""
    catalog.stop(START)
    commit.drain()
    catalog, _ = started()
    assert b'"seq":2' in publish(catalog, b"S")


def test_what_was_accepted_opens_although_less_is_accepted_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vault = MemoryVault()
    large: dict[str, Any] = {
        "subjects": ["s.*.*", "long.subject"],
        "subject_transform": SubjectTransform(src="s.*.*", dest="s.$2.{{partition(9,1,2)}}"),
        "republish": RePublish(src="s.*.*", dest="r.$1.$2"),
        "sources": [
            OriginConfig(name="A"),
            OriginConfig(name="B", subject_transforms=[SubjectTransform(src="b.*", dest="c.d.$1")]),
            OriginConfig(name="S", filter_subject="t"),
            OriginConfig(
                name="D", subject_transforms=[SubjectTransform(src=f"*.{n}") for n in range(3)]
            ),
        ],
    }
    before = make_catalog(vault)
    stream = before.create(config("S", **large), START)
    create_consumer(stream, ConsumerConfig(durable_name="C", ack_policy="explicit"), START)
    # As one is stored that a newer server has made.
    file, _ = vault.folder("S", memory=False).consumer("C")
    stored = file.load()
    assert stored is not None
    file.save(stored.replace(b'{"config":{', b'{"config":{"new":[{},{},{}],', 1))
    monkeypatch.setattr(go_json, "OBJECTS_MAX", 2)
    monkeypatch.setattr(subjects, "SUBJECT_BYTES_MAX", 4)
    monkeypatch.setattr(transforms, "SUBJECT_BYTES_MAX", 4)
    monkeypatch.setattr(transforms, "DESTINATION_BYTES_MAX", 4)
    monkeypatch.setattr(transforms, "TOKENS_USED_MAX", 1)
    monkeypatch.setattr(origin_checks, "TOKENS_MAX", 1)
    monkeypatch.setattr(origin_checks, "_LETTERS_MAX", 1)
    after = restarted(vault)
    assert after.offline == {}
    assert after.stream("S").config == stream.config
    assert list(after.stream("S").consumers) == ["C"]
    assert b'"seq":1' in publish(after, b"s.a.b")
    message = after.stream("S").store.load(1)
    assert message is not None and message.subject.startswith(b"s.b.")
    for name in ("subject_transform", "republish", "sources", "subjects"):
        asked = config("T", **{"subjects": ["t"], name: large[name]})
        assert refusal(partial(after.create, asked, START))


def test_fields_of_a_newer_server_are_no_reason_to_refuse() -> None:
    vault = MemoryVault()
    make_catalog(vault).create(config("S"), START)
    vault.folder("S", memory=False).config().save(
        b'{"config":{"name":"S","new_field":1},"created":"2023-01-01T00:00:00Z"}'
    )
    assert restarted(vault).stream("S").name == "S"


def test_a_store_that_goes_offline_takes_only_its_stream_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalog = make_catalog()
    catalog.create(config("S"), START)
    monkeypatch.setattr(MemoryStore, "offline", "checksum mismatch in block 3")
    with pytest.raises(ApiError, match="stream is offline: checksum mismatch in block 3"):
        catalog.stream("S")
    assert catalog.offline_reason("S") == "checksum mismatch in block 3"


def test_a_store_that_is_damaged_at_the_start_is_not_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vault = MemoryVault()
    make_catalog(vault).create(config("S"), START)
    monkeypatch.setattr(MemoryStore, "offline", "checksum mismatch in block 3")
    catalog = restarted(vault)
    assert catalog.offline_reason("S") == "checksum mismatch in block 3"
    assert catalog.context.sublist.match(b"S").empty
    catalog.delete("S", START)
    assert vault.folders() == []


def test_a_stream_that_fails_while_it_is_opened_is_closed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vault = MemoryVault()
    make_catalog(vault).create(config("S", retention="interest"), START)

    def damaged(*_: object, at_once: bool) -> None:
        raise StoreError("corrupt record")

    monkeypatch.setattr(Removal, "sweep", damaged)
    catalog = restarted(vault)
    assert catalog.names() == ["S"] and not catalog.streams
    assert catalog.offline_reason("S") == "corrupt record"
    assert catalog.context.sublist.match(b"S").empty


def test_what_a_damaged_consumer_needs_is_not_swept_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vault = MemoryVault()
    before = make_catalog(vault)
    stream = before.create(config("S", retention="interest"), START)
    create_consumer(stream, ConsumerConfig(durable_name="C", ack_policy="explicit"), START)
    publish(before, b"S")

    def damaged(*_: object) -> None:
        raise StoreError("the config file can not be read")

    monkeypatch.setattr(outages, "restore_consumer", damaged)
    catalog = restarted(vault)
    found = catalog.stream("S")
    assert found.store.state().messages == 1 and not found.consumers
    assert catalog.unread_consumers("S") == [("C", "the config file can not be read")]
    create_consumer(found, ConsumerConfig(durable_name="C", ack_policy="explicit"), START)
    assert catalog.unread_consumers("S") == []
    found.consumers.clear()
    catalog.delete("S", START)
    catalog.create(config("S"), START)
    assert catalog.unread_consumers("S") == []


# -- the turn --------------------------------------------------------------------------------------


class Runnable:
    """Notes when it is advanced; may wake another."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log = log
        self.name = name

    def advance(self, now: int) -> None:
        self.log.append(f"advance {self.name}")

    def put_off(self, now: int) -> None:
        raise AssertionError("a turn has time for it")

    def tick(self, now: int) -> None:
        self.log.append(f"tick {self.name}")


def test_timers_come_before_deliveries() -> None:
    catalog, log = make_catalog(), []
    context = catalog.context
    assert catalog.next_deadline() is None
    context.deadlines.schedule(Runnable(log, "late"), START + 9)
    context.deadlines.schedule(Runnable(log, "due"), START)
    assert catalog.next_deadline() == START
    context.wake(Runnable(log, "a"))
    assert catalog.next_deadline() == 0
    catalog.run(START)
    assert log == ["tick due", "advance a"]
    assert catalog.next_deadline() == START + 9


def test_nobody_delivers_while_much_waits_for_a_flush_but_timers_run() -> None:
    catalog, log = make_catalog(), []
    context = catalog.context
    context.workload.is_laden = True
    context.wake(Runnable(log, "a"))
    context.deadlines.schedule(Runnable(log, "due"), START)
    context.deadlines.schedule(Runnable(log, "late"), START + 9)
    catalog.run(START)
    assert log == ["tick due"] and catalog.next_deadline() == START + 9
    context.workload.is_laden = False
    assert catalog.next_deadline() == 0
    catalog.run(START)
    assert log == ["tick due", "advance a"]


@pytest.mark.parametrize("what", ["tick", "advance"])
def test_what_takes_long_by_the_clock_leaves_the_others_to_the_next_turn(what: str) -> None:
    """Each may count for nothing, and take longer than a turn."""
    catalog, log, ns = make_catalog(), [], [0]
    workload = catalog.context.workload = Workload(UNITS_OF_TURN, lambda: ns[0])

    class Long(Runnable):
        def advance(self, now: int) -> None:
            super().advance(now)
            ns[0] += UNITS_OF_TIMERS * 2 // 3 * UNIT_NS

        tick = advance

    for name in "abcde":
        if what == "tick":
            catalog.context.deadlines.schedule(Long(log, name), START)
        else:
            catalog.context.wake(Long(log, name))
    for heard in ("ab", "abcd", "abcde"):
        workload.begin()
        catalog.run(START)
        assert log == [f"advance {name}" for name in heard]


def test_who_wakes_while_others_deliver_goes_next_turn() -> None:
    catalog, log = make_catalog(), []
    again = Runnable(log, "again")

    class Waking(Runnable):
        def advance(self, now: int) -> None:
            super().advance(now)
            catalog.context.wake(again)

    catalog.context.wake(Waking(log, "first"))
    catalog.run(START)
    assert log == ["advance first"] and catalog.next_deadline() == 0
    catalog.run(START)
    assert log == ["advance first", "advance again"]


def test_watching_consumers_look_again_when_interest_changes() -> None:
    catalog, log = make_catalog(), []
    catalog.context.watching[Runnable(log, "push")] = None
    catalog.run(START)
    log.clear()
    catalog.run(START)
    assert log == []
    subscription = Subscription(b"inbox", Output)  # type: ignore[arg-type]
    catalog.context.sublist.insert(subscription)
    catalog.run(START)
    assert log == ["advance push"]


def test_blocked_consumers_go_on_when_a_client_reads_again() -> None:
    """The others are not looked at: 400 clients that read again went through 10,000 each."""
    catalog, reader = make_catalog(), Reader()
    stream = catalog.create(config("S", storage="memory", subjects=["s"]), START)
    consumers = [
        create_consumer(
            stream, ConsumerConfig(durable_name=name, deliver_subject=f"to.{name}"), START
        )
        for name in "abc"
    ]
    catalog.context.sublist.insert(
        Subscription(b"to.b", reader, sid=b"1", outlet=reader)  # type: ignore[arg-type]
    )
    reader.backlog_bytes = 1 << 30
    publish(catalog, b"s")
    catalog.run(START)
    assert list(catalog.context.blocked) == [consumers[1]] and not catalog.context.ready
    outlet: Any = reader
    catalog.outlet_drained(outlet)
    assert list(catalog.context.ready) == [consumers[1]]
    reader.backlog_bytes = 0
    catalog.run(START)
    assert not catalog.context.blocked and consumers[1].progress.consumer_seq == 1


def test_a_blocked_consumer_that_goes_is_forgotten() -> None:
    catalog, reader = make_catalog(), Reader()
    stream = catalog.create(config("S", storage="memory", subjects=["s"]), START)
    consumer = create_consumer(
        stream, ConsumerConfig(durable_name="C", deliver_subject="to.me"), START
    )
    catalog.context.sublist.insert(
        Subscription(b"to.me", reader, sid=b"1", outlet=reader)  # type: ignore[arg-type]
    )
    reader.backlog_bytes = 1 << 30
    publish(catalog, b"s")
    catalog.run(START)
    assert consumer in catalog.context.blocked
    consumer.delete(START)
    assert not catalog.context.blocked


def test_a_disk_that_disagrees_about_one_stream_does_not_stop_the_turn() -> None:
    catalog, log, notes = make_catalog(), [], []
    catalog.context.log = lambda level, text: notes.append((level, text))

    class Broken(Runnable):
        def advance(self, now: int) -> None:
            raise StoreError("corrupt record", "/data/1.blk", 17)

    catalog.context.wake(Broken(log, "broken"))
    catalog.context.wake(Runnable(log, "sound"))
    catalog.run(START)
    assert log == ["advance sound"]
    assert notes == [("ERR", "account $G: corrupt record (/data/1.blk at byte 17)")]


def test_a_shutdown_ends_streams_and_keeps_what_they_hold() -> None:
    vault = MemoryVault()
    catalog = make_catalog(vault)
    catalog.create(config("S"), START)
    publish(catalog, b"S")
    catalog.stop(START)
    assert publish(catalog, b"S") == b""
    assert vault.folders() == ["S"]


TIERS = AccountLimits(
    tiers={
        "R1": AccountLimits(
            max_storage=100, max_streams=1, max_consumers=2, storage_max_stream_bytes=90
        ),
        "R3": AccountLimits(max_storage=50, max_ack_pending=3),
    }
)


def test_limits_are_those_of_the_tier() -> None:
    catalog = make_catalog(limits=TIERS)

    def refused(**fields: Any) -> int:
        return refusal(lambda: catalog.create(config("S", **fields), START))

    assert refused(num_replicas=2) == 10120
    assert refused(num_replicas=3) == 10074
    assert refused(num_replicas=3, max_bytes=51) == 10047
    assert refused(max_bytes=101) == 10047
    assert refused(max_bytes=91) == 10122
    assert refused(max_consumers=3) == 10026
    catalog.create(config("S", max_bytes=90, max_consumers=2), START)
    assert refusal(lambda: catalog.create(config("T"), START)) == 10027
    assert refusal(lambda: catalog.create(config("T", num_replicas=3), START)) == 10074
    bounds = catalog.consumer_bounds()
    assert (bounds.max_consumers, bounds.max_ack_pending) == (2, -1)


def test_what_is_published_counts_against_the_tier() -> None:
    catalog = make_catalog(limits=TIERS)
    catalog.create(config("S", subjects=["s"]), START)
    assert b'"seq":1' in publish(catalog, b"s", b"x" * 40)
    assert b"10002" in publish(catalog, b"s", b"x" * 40)


def test_a_tier_that_is_not_there_has_no_room_for_streams() -> None:
    catalog = make_catalog(limits=AccountLimits(tiers={"R3": AccountLimits()}))
    assert refusal(lambda: catalog.create(config("S"), START)) == 10120


def test_replicas_count_where_there_are_no_tiers() -> None:
    catalog = make_catalog(limits=AccountLimits(max_memory=100))
    wanted = config("S", storage="memory", max_bytes=50, num_replicas=3)
    assert refusal(lambda: catalog.create(wanted, START)) == 10028


def test_limits_of_zero_are_none_for_numbers_and_all_for_bytes() -> None:
    catalog = make_catalog(limits=AccountLimits(max_memory=0, max_streams=0, max_consumers=0))
    catalog.create(config("S", max_consumers=5), START)
    assert refusal(lambda: catalog.create(config("M", storage="memory"), START)) == 10028


class Reader:
    """A client that takes everything."""

    headers = True
    backlog_bytes = 0

    def receive(self, stretch: Stretch) -> None:
        raise AssertionError("it gets frames")


class Woken:
    """Something that delivers, and wants to go on."""

    def __init__(self, log: Catalog, units: float) -> None:
        self._context = log.context
        self._units = units
        self.advanced = 0

    def advance(self, now: int) -> None:
        self.advanced += 1
        self._context.workload.spend(self._units)
        self._context.wake(self)


@pytest.mark.parametrize(("units", "of_turn"), [(0.0, 4), (25.0, 3)])
def test_whatever_delivers_has_its_turn_and_comes_first_when_it_was_put_off(
    monkeypatch: pytest.MonkeyPatch, units: float, of_turn: int
) -> None:
    monkeypatch.setattr(catalogs, "ADVANCED_OF_TURN_MAX", 4)
    log = make_catalog()
    some = [Woken(log, units) for _ in range(6)]
    for each in some:
        log.context.wake(each)
    for turn in range(1, 13):
        log.run(START)
        assert sum(each.advanced for each in some) == turn * of_turn
        counts = [each.advanced for each in some]
        assert max(counts) - min(counts) <= 1


def test_consumers_with_much_to_send_have_their_turns_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A turn delivers a bounded amount, and the acks of who is put off are saved in it."""
    log = make_catalog()
    monkeypatch.setattr(catalogs, "TURN_BYTES", 2000)
    stream = log.create(config("S", storage="memory", subjects=["s"]), START)
    for _ in range(10):
        publish(log, b"s", b"x" * 1000)
    names = [f"C{number}" for number in range(4)]
    consumers = [
        create_consumer(stream, ConsumerConfig(durable_name=name, ack_policy="explicit"), START)
        for name in names
    ]
    saved: list[str] = []
    for consumer in consumers:
        monkeypatch.setattr(
            consumer.files, "end_turn", lambda name=consumer.name: saved.append(name)
        )
    inbox = Subscription(b"inbox", Reader(), sid=b"1", outlet=Reader())  # type: ignore[arg-type]
    log.context.sublist.insert(inbox)
    log.run(START)
    for name in names:
        run = PubRun.single(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}".encode(), b"inbox", b"", b"10")
        for subscription in log.context.sublist.match(run.subject(0)).plain:
            subscription.receiver.receive(Stretch(run, 0, 1, subscription, None, START))
    served: list[list[int]] = []
    for turn in range(2):
        saved.clear()
        consumers[3].shared.note_answer()  # of those that are put off it alone has to save
        log.run(START)
        assert saved == [names[turn], names[3]]
        served.append([consumer.progress.consumer_seq for consumer in consumers])
        assert log.next_deadline() == 0
    assert served == [[10, 0, 0, 0], [10, 10, 0, 0]]
    for _ in range(2):
        log.run(START)
    assert [consumer.progress.consumer_seq for consumer in consumers] == [10] * 4
    assert not log.context.ready


def test_a_stream_with_very_many_consumers_goes_some_of_them_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 10,000 of them all others waited for 150 ms."""
    monkeypatch.setattr(audience, "TOLD_MUCH_AT_ONCE", 2)
    log = make_catalog()
    stream = log.create(config("S", subjects=["s"]), START)
    made = [
        create_consumer(stream, ConsumerConfig(durable_name=f"C{number}"), START)
        for number in range(5)
    ]
    steps = log.delete_in_steps("S", START)
    next(steps)
    assert [each._is_stopped for each in made] == [True, True, False, False, False]
    assert publish(log, b"s") == b"" and refusal(lambda: log.stream("S")) == 10059
    assert refusal(lambda: log.create(config("S"), START)) == 10058
    assert refusal(lambda: log.begin_restore(config("S"))) == 10130
    log.create(config("T", subjects=["s"]), START)
    assert len(list(steps)) == 1
    assert all(each._is_stopped for each in made)
    assert log.create(config("S"), START).consumers == {}


def test_a_stream_that_is_going_is_gone_after_a_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audience, "TOLD_MUCH_AT_ONCE", 2)
    vault = MemoryVault()
    log = make_catalog(vault)
    stream = log.create(config("S", subjects=["s"]), START)
    for number in range(5):
        create_consumer(stream, ConsumerConfig(durable_name=f"C{number}"), START)
    steps = log.delete_in_steps("S", START)
    next(steps)
    log.stop(START)
    assert all(each._is_stopped for each in stream.consumers.values())  # type: ignore[attr-defined]
    assert restarted(vault).names() == []
    steps.close()


def test_a_turn_delivers_so_many_messages_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a stream in memory take time, however small: a hundred consumers had 60,000 in 50
    ms."""
    monkeypatch.setattr(catalogs, "TURN_MESSAGES", 15)
    log = make_catalog()
    stream = log.create(config("S", storage="memory", subjects=["s"]), START)
    for _ in range(10):
        publish(log, b"s")
    pushing = Subscription(b"d", Reader(), sid=b"1", outlet=Reader())  # type: ignore[arg-type]
    log.context.sublist.insert(pushing)
    consumers = [
        create_consumer(stream, ConsumerConfig(durable_name=f"C{n}", deliver_subject="d"), START)
        for n in range(5)
    ]
    served: list[int] = []
    while log.context.ready:
        log.run(START)
        served.append(sum(each.progress.consumer_seq for each in consumers))
    assert served == [20, 40, 50]
