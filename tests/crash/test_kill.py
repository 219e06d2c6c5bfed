"""kill -9 at any moment: what was acknowledged is there afterwards, at its sequence."""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import time

import pytest

from jetstream_spark.embedded import JetStreamServer
from tests.ports import free_port

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]

CREATE = json.dumps({"name": "S", "subjects": ["s.>"], "allow_direct": True})
CONSUMER = json.dumps(
    {
        "stream_name": "S",
        "config": {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 60_000_000_000},
    }
)


def kill(server: JetStreamServer) -> None:
    """End the process as a power cut to it would."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    server.stop()


def stored(raw, sequence: int) -> bytes | None:
    """Return the payload at a sequence."""
    answer = json.loads(raw.request("$JS.API.STREAM.MSG.GET.S", json.dumps({"seq": sequence})))
    message = answer.get("message")
    return base64.b64decode(message["data"]) if message else None


def test_no_acknowledged_message_is_lost(tmp_path, connect, publisher, crash_rounds):
    chance = random.Random(4)
    first, everything = 0, {}
    for turn in range(crash_rounds):
        server = JetStreamServer(tmp_path, free_port()).start()
        raw = connect(server.url)
        if turn == 0:
            assert b"did_create" in raw.request("$JS.API.STREAM.CREATE.S", CREATE)
        raw.close()
        publishers = [publisher(server.url, first + n * 10_000_000, 1000) for n in range(2)]
        for each in publishers:
            each.start()
        deadline = time.monotonic() + 60
        enough = chance.randrange(500, 8000)
        while sum(len(p.acked) for p in publishers) < enough and time.monotonic() < deadline:
            time.sleep(0.005)
        kill(server)
        for each in publishers:
            each.join(60)
            assert each.acked, "the publisher got no ack at all: nothing was tested"
            everything |= each.acked
        first += 100_000_000
        with JetStreamServer(tmp_path) as reopened:
            raw = connect(reopened.url)
            info = json.loads(raw.request("$JS.API.STREAM.INFO.S"))
            assert info["state"]["last_seq"] >= max(everything.values())
            assert info["state"]["first_seq"] == 1
            assert info["state"].get("num_deleted", 0) == 0
            for number, sequence in _sample(everything, chance):
                payload = stored(raw, sequence)
                assert payload is not None and payload.startswith(b"%d:" % number)
            raw.close()
    assert len(set(everything.values())) == len(everything), "one sequence was acked twice"


def _sample(acked: dict[int, int], chance: random.Random) -> list[tuple[int, int]]:
    """Return some acked messages, and the last ones of all: those are the ones at risk."""
    items = sorted(acked.items(), key=lambda item: item[1])
    return chance.sample(items, min(300, len(items))) + items[-1000:]


def test_an_answered_ack_is_not_delivered_again(tmp_path, connect, crash_rounds):
    chance = random.Random(5)
    with JetStreamServer(tmp_path) as server:
        raw = connect(server.url)
        raw.request("$JS.API.STREAM.CREATE.S", CREATE)
        raw.request("$JS.API.CONSUMER.CREATE.S.C", CONSUMER)
        total = 20 * crash_rounds  # each round needs 20 that were not delivered before
        for number in range(total):
            raw.request("s.a", str(number))
        raw.close()
    acked: set[int] = set()
    for _ in range(crash_rounds):
        server = JetStreamServer(tmp_path, free_port()).start()
        raw = connect(server.url)
        raw.write(b"SUB in 5\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C in 2\r\n20\r\n")
        replies = []
        while len(replies) < 20:
            line = raw.until(b"\r\n")
            if line.startswith(b"MSG s.a 5 $JS.ACK."):
                replies.append(line.split()[3].decode())
        for reply in replies[: chance.randrange(1, 20)]:
            raw.request(reply, "+ACK")
            acked.add(int(reply.split(".")[5]))
        kill(server)
        with JetStreamServer(tmp_path) as reopened:
            raw = connect(reopened.url)
            info = json.loads(raw.request("$JS.API.CONSUMER.INFO.S.C"))
            floor = info["ack_floor"]["stream_seq"]
            pending = info["num_ack_pending"]
            raw.close()
        left = [sequence for sequence in range(1, total + 1) if sequence not in acked]
        # Everything below the floor was acked, and what is pending was not.
        assert all(sequence in acked for sequence in range(1, floor + 1))
        assert pending + info["num_pending"] == len(left)
