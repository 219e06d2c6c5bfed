"""The page on security says what the code does, and every row of it names a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jetstream_server.base import limits
from jetstream_server.base.clock import MILLISECOND
from jetstream_server.core import deliveries, match, workload
from jetstream_server.jetstream import open_batches
from jetstream_server.jetstream.api import list_page
from jetstream_server.jetstream.consumers import ack, pull_request
from jetstream_server.jetstream.origins import renaming, sourcing
from jetstream_server.jetstream.streams import audience, filter_index
from jetstream_server.jetstream.streams.schedules import (
    schedule,
    schedule_checks,
    schedule_timing,
)
from jetstream_server.jetstream.streams.storing import counter
from jetstream_server.jetstream.wire import go_json, json_extent
from jetstream_server.jetstream.wire.go_duration import DURATION_NS_MAX
from jetstream_server.kernels.numbered import pure as numbered
from jetstream_server.kernels.seen_ids import pure as seen_ids
from jetstream_server.net import (
    allocator,
    client_connection,
    deflating,
    departures,
    descriptors,
    handshakes,
    idle_memory,
    password_threads,
    pump,
    read_buffer,
    readiness,
    unwrapping,
    websocket_upgrade,
)
from jetstream_server.node import node, outbox, router, session, session_queue, upkeep
from jetstream_server.node.accounts import following, service_replies
from jetstream_server.node.auth import expected_replies

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/security.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "Shown by" not in line]
SOURCES = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_row_names_tests_that_exist(row):
    named = re.findall(r"`(test_[a-z_0-9]+)`", row)
    assert named
    assert [each for each in named if f"def {each}(" not in SOURCES] == []


def test_there_are_rows():
    assert len(ROWS) > 35
    named = re.findall(r"`(test_[a-z_0-9]+)`", PAGE)
    assert [each for each in named if f"def {each}(" not in SOURCES] == []


@pytest.mark.parametrize(
    ("what", "number"),
    [
        ("A line of the protocol", limits.CONTROL_LINE_BYTES_MAX),
        ("A message", limits.PAYLOAD_BYTES_MAX),
        ("with which a new stream begins", sourcing._MADE_AT_ONCE),
        ("Time zones of schedules", workload.UNITS_OF_TURN // schedule_checks._ZONE_UNITS),
        ("body of a request holds", go_json.OBJECTS_MAX),
        ("body of a request holds", go_json.MEMBERS_MAX),
        ("body of a request holds", json_extent.CONTAINERS_MAX),
        ("body of a request holds", json_extent.MEMBERS_MAX),
        ("body of a request holds", json_extent.VALUES_MAX),
        ("deliveries", limits.OUTBOX_HIGH_BYTES),
        ("deliveries", limits.OUTBOX_LOW_BYTES),
        ("in a turn", limits.TURN_READ_BYTES),
        ("in a turn", session_queue.OPS_OF_SESSION_MAX),
        ("Steps of TLS handshakes", handshakes.UNITS_OF_TURN // handshakes.UNITS_OF_TLS),
        ("Steps of TLS handshakes", handshakes.UNITS_OF_TURN // handshakes.UNITS_OF_QUESTION),
        ("Steps of TLS handshakes", handshakes.UNITS_OF_TURN // handshakes.UNITS_OF_UPGRADE),
        ("who have not signed in", node.OPS_OF_STRANGERS_MAX),
        ("Sockets that are read from", readiness.SOCKETS_OF_LOOK_MAX),
        ("Sockets that are read from", readiness.READ_BY_LOOP_MAX),
        ("Sockets that are read from", readiness.ENDED_OF_BUSY_LOOK),
        ("Sockets that are read from", readiness.ENDED_OF_LOOK),
        ("Sockets that are read from", readiness.LOOK_NS // MILLISECOND),
        ("from all sockets together", read_buffer.ROUND_BYTES),
        ("from all sockets together", read_buffer.READ_BYTES_MIN),
        ("in a turn", session_queue.LITTLE_BYTES),
        ("as it comes", node.READ_OF_TURN_MAX),
        ("of clients that are gone", upkeep.GIVEN_UP_OF_TURN_MAX),
        ("Imports that follow", following.FOLLOWED_AT_ONCE),
        ("leaves with it in one go", node.HELD_MAX),
        ("is written at once", client_connection._PIECE_BYTES),
        ("is written at once", client_connection._PIECES_BYTES_MAX),
        ("is written at once", pump.WRITTEN_BYTES_MAX),
        ("is written at once", pump.WRITTEN_NS // MILLISECOND),
        ("is written at once", pump.WRITTEN_LATE_BYTES_MIN),
        ("is written at once", pump.WRITTEN_AFTER_FLUSH_BYTES_MAX),
        ("is written at once", pump.AFTER_FLUSH_OF_ONE_BYTES_MAX),
        ("Listeners to the reply", session._FEW_OWN),
        ("Listeners to the reply", session._LOOKED_FOR_OWN_MAX),
        ("Subscriptions that one message reaches", match.COLLECTED_AT_ONCE_MAX),
        ("Subscriptions that one message reaches", match.SERVED_OF_GROUP_MAX),
        ("Subscriptions that one message reaches", match.PIECE_MAX),
        ("that are written to", pump.WRITTEN_CLIENTS_MAX),
        ("that are written to", pump.WRITTEN_AFTER_FLUSH_CLIENTS_MAX),
        ("that are written to", deliveries.CLIENTS_OF_TURN_MAX),
        ("whose connections are lost", departures.PARTS_OF_TURN),
        ("whose connections are lost", departures.PARTS_OF_BUSY_TURN),
        ("whose connections are lost", departures.SUBSCRIPTIONS_OF_PART),
        ("whose connections are lost", departures.BYTES_OF_PART),
        ("whose connections are lost", pump.CLOSED_AT_ONCE_MAX),
        ("given back to the system", allocator.HELD_BYTES),
        ("given back to the system", idle_memory.GIVEN_BACK_AT_ONCE),
        ("given back to the system", idle_memory.HELD_AT_ONCE),
        ("Small parts", outbox._JOINED_PARTS),
        ("Small parts", outbox._JOINED_BYTES_MAX),
        ("of a deleted stream", audience.LET_GO_AT_ONCE),
        ("Records of TLS", unwrapping.STEPS_OF_TURN),
        ("Records of TLS", unwrapping.STEPS_OF_SHARE_MIN),
        ("Records of TLS", unwrapping.INFLATED_BYTES_OF_STEP),
        ("waits for the disk", limits.UNFLUSHED_HIGH_BYTES),
        ("waits for the disk", limits.UNFLUSHED_MUCH_BYTES),
        ("waits for the disk", limits.UNFLUSHED_SHARE_BYTES),
        ("Passwords", password_threads.WAITING_MAX),
        ("Passwords", password_threads.WAITING_OF_ADDRESS_MAX),
        ("Passwords", password_threads._THREADS_MAX),
        ("by the clock", node.OPS_OF_TURN_MAX * session_queue.OP_NS // 1_000_000),
        ("by the clock", session_queue.GROUP_NS / 1_000_000),
        ("by the clock", workload.UNITS_OF_TURN * workload.UNIT_NS // 1_000_000),
        ("by the clock", deliveries.TURN_NS // 1_000_000),
        ("Costly requests", workload.UNITS_OF_TURN // workload.FILE_UNITS),
        ("upgrade to WebSocket", websocket_upgrade.HEAD_BYTES_MAX),
        ("File descriptors", descriptors.RESERVED_MAX),
        ("may still answer", expected_replies._OPEN_MAX),
        ("A pause", DURATION_NS_MAX),
        ("A page of a list", list_page.PAGE_BYTES_MAX),
        ("A page of a list", list_page.TEXTS_MAX),
        ("`Nats-Schedule`", schedule_timing.TIMING_BYTES_MAX),
        ("that come up in a turn", schedule.FIRED_BYTES_AT_ONCE),
        ("a message's id", seen_ids._DIGEST_BYTES),
        ("Whom subjects reach", router.ROUTES_MAX),
        ("Whom subjects reach", router.ROUTES_BYTES_MAX),
        ("renames subjects", renaming._REMEMBERED_MAX),
        ("renames subjects", renaming._REMEMBERED_BYTES_MAX),
        ("that waits", pull_request._NAME_KEPT),
        ("open atomic batches", open_batches.HELD_OF_STREAM_MAX_BYTES),
        ("open atomic batches", open_batches.HELD_MAX_BYTES),
        ("open atomic batches", open_batches.MESSAGE_OVERHEAD_BYTES),
        ("increments of counters", workload.UNITS_OF_TURN * counter._BYTES_OF_UNIT),
        ("one atomic batch", counter._UNITS_OF_BATCH_MAX * counter._BYTES_OF_UNIT),
        ("compressed for WebSocket", deflating.BYTES_OF_TURN),
        ("Timed requests", service_replies.TIMEOUTS_OF_TURN_MAX),
        ("Timed requests", service_replies.TIMEOUTS_OF_PIECE),
        ("What is moved in one piece", numbered.PAGE_MAX),
        ("Filters of consumers", filter_index.NOTED_MAX),
        ("Acks in a turn", workload.UNITS_OF_TURN * ack._ODD_OF_UNIT),
        ("Acks in a turn", workload.UNITS_OF_TURN * ack._ASKED_OF_UNIT),
    ],
)
def test_the_numbers_are_those_of_the_code(what, number):
    section = PAGE.partition("## What bounds it")[2].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if what in row]
    assert any(re.search(rf"\b{number}\b", row) for row in rows), (what, number)
