"""What leaves a work queue was held by its mirror, whatever happens to both.

Played at random: publishes, the queue deleted and made anew (with limits or as a work queue), stops
and kills, purges and deletes of either, a backup of the mirror that is restored. The mirror has
limits most of the time, so that what it held is gone when it is asked again. Seeds from 1000 to
3099 were played once; some are played each time, and before them those that found a mirror that had
forgotten what it passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.ports import MessageStore, Times

from tests.server.jetstream.conftest import Transfers

FOUND = (15, 1002, 1027, 1034, 1056, 1067, 1082, 1083, 1091, 1100, 1108, 1117, 1132, 1142, 1182)
SEEDS = (*FOUND, *range(2000, 2030))


class Play:
    """An origin, its mirror, and a witness of what the mirror ever stored.

    Attributes:
        held: payloads that the mirror has stored.
        waiting: payloads of the present origin, by sequence.
        taken: those of them that somebody else removed.
    """

    def __init__(self, make: Callable[[], Any], seed: int) -> None:
        self.held: set[bytes] = set()
        self.waiting: dict[int, bytes] = {}
        self.taken: set[bytes] = set()
        self._make = make
        self._random = random = Random(seed)
        self._server = make()
        self._number = 0
        self._retention = random.choice(("limits", "workqueue"))
        self._mirror: dict[str, Any] = {"mirror": {"name": "O"}}
        if random.random() < 0.6:
            self._mirror["max_msgs"] = random.choice((1, 2, 3, 5))
        if random.random() < 0.3:
            self._mirror["max_age"] = random.choice((2, 5, 20)) * SECOND
        if random.random() < 0.3:
            self._mirror["mirror"]["filter_subject"] = "o.1"
        self._make_origin()
        self._server.ask("STREAM.CREATE.M", {"name": "M", **self._mirror})
        self._witness()

    def run(self) -> None:
        acts = (
            *(self.publish,) * 3,
            *(self.wait,) * 2,
            self.wait_long,
            self.make_anew,
            self.restart,
            self.kill,
            self.purge_mirror,
            self.purge_origin,
            self.take_elsewhere,
            self.restore,
        )
        for _ in range(self._random.randrange(10, 40)):
            self._random.choice(acts)()
            self.check()
        self.wait_long()
        self.check()
        self._end()

    def check(self) -> None:
        if self._retention == "workqueue":
            gone = {sequence for sequence in self.waiting if not self._is_there(sequence)}
            assert {self.waiting[each] for each in gone} <= self.held | self.taken

    # -- acts ------------------------------------------------------------------------------

    def publish(self) -> None:
        server, random = self._server, self._random
        for _ in range(random.randrange(1, 12)):
            self._number += 1
            server.now += random.choice((1, 1000, MILLISECOND))
            payload = b"%d" % self._number
            server.publish(b"o.%d" % random.randrange(3), payload)
            self.waiting[server.catalog.streams["O"].store.last_seq] = payload
            if random.random() < 0.3:
                server.turn()
        server.turn()

    def wait(self) -> None:
        self._server.advance(self._random.choice((100 * MILLISECOND, SECOND, 3 * SECOND)))

    def wait_long(self) -> None:
        for _ in range(15):
            self._server.advance(SECOND)

    def make_anew(self) -> None:
        self._server.ask("STREAM.DELETE.O")
        self._server.advance(self._random.choice((0, 1, SECOND, 12 * SECOND)))
        self._retention = "workqueue" if self._random.random() < 0.8 else "limits"
        self._make_origin()
        if self._random.random() < 0.9:
            self.publish()

    def restart(self) -> None:
        self._server.catalog.stop(self._server.now)
        self.kill()

    def kill(self) -> None:
        self._end()
        now = self._server.now + self._random.choice((0, 1, SECOND))
        self._server = self._make()
        self._server.now = now
        self._witness()

    def purge_mirror(self) -> None:
        self._server.ask("STREAM.PURGE.M")

    def purge_origin(self) -> None:
        last = self._server.catalog.streams["O"].store.last_seq
        below = self._random.randrange(last + 2)
        self._take(lambda each: not below or each < below)
        self._server.ask("STREAM.PURGE.O", {"seq": below} if below else {})

    def take_elsewhere(self) -> None:
        for sequence in self._take(lambda each: self._random.random() < 0.3):
            self._server.ask("STREAM.MSG.DELETE.O", {"seq": sequence})

    def restore(self) -> None:
        _, archive = self._server.snapshot("M")
        self._server.ask("STREAM.DELETE.M")
        if self._random.random() < 0.5:
            self.publish()
        answer = self._server.restore("M", archive, subjects=[], **self._mirror)
        assert "error" not in answer
        self._witness()

    # -- parts of them ---------------------------------------------------------------------

    def _end(self) -> None:
        """End the process, of which the system takes back the files."""
        commit = self._server.commit
        commit.drain()
        for file in [*commit._files]:
            commit.close(file)

    def _make_origin(self) -> None:
        self.waiting.clear()
        config = {"name": "O", "subjects": ["o.>"], "retention": self._retention}
        self._server.ask("STREAM.CREATE.O", config)

    def _is_there(self, sequence: int) -> bool:
        return self._server.catalog.streams["O"].store.load(sequence) is not None

    def _take(self, wants: Callable[[int], bool]) -> list[int]:
        """Return which of the messages that are there are wanted; somebody else has them then."""
        taken = [each for each in self.waiting if self._is_there(each) and wants(each)]
        self.taken |= {self.waiting[each] for each in taken}
        return taken

    def _witness(self) -> None:
        """Note from now on what the mirror stores."""
        store: MessageStore = self._server.catalog.streams["M"].store
        append_run, append = store.append_run, store.append

        def noted_run(run: PubRun, start: int, stop: int, now: int, times: Times = None) -> int:
            self.held |= {run.payload(at) for at in range(start, stop)}
            return append_run(run, start, stop, now, times)

        def noted(
            subject: bytes, headers: bytes, payload: bytes, timestamp: int, sequence: int = 0
        ) -> int:
            self.held.add(payload)
            return append(subject, headers, payload, timestamp, sequence)

        store.append_run, store.append = noted_run, noted  # type: ignore[method-assign]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_leaves_a_work_queue_was_held_by_its_mirror(tmp_path: Path, seed: int) -> None:
    Play(lambda: Transfers(tmp_path), seed).run()
