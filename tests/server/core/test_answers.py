"""What is under way to a client, and what waits for it."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jetstream_server.base.limits import OUTBOX_HIGH_BYTES
from jetstream_server.core.answers import Answers
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.protocol.ops import PubRun

MEGABYTE = 1_000_000


class Service:
    """Answers each request with as many bytes, as far as there is room."""

    def __init__(self, answers: Answers, size: int) -> None:
        self.answers = answers
        self.size = size
        self.answered: list[bytes] = []

    def receive(self, stretch: Stretch) -> None:
        for index in stretch.indices:
            if not self.answers.room_bytes:
                self.answers.postpone(stretch.postponed_from(index))
                return
            self.answered.append(stretch.run.payload(index))
            self.answers.owe(self.size)


@pytest.fixture
def outlet() -> Any:
    return SimpleNamespace(backlog_bytes=0)


def requests(*bodies: bytes) -> PubRun:
    return PubRun.of([(b"ask", b"reply", b"", body) for body in bodies])


def test_there_is_room_below_the_high_mark(outlet: Any) -> None:
    answers = Answers(outlet, lambda: None)
    assert answers.room_bytes == OUTBOX_HIGH_BYTES
    answers.owe(OUTBOX_HIGH_BYTES - 10)
    outlet.backlog_bytes = 4
    assert answers.room_bytes == 6
    answers.owe(100)
    assert answers.room_bytes == 0
    answers.release(OUTBOX_HIGH_BYTES + 90)
    assert answers.room_bytes == OUTBOX_HIGH_BYTES - 4


def test_what_was_put_off_goes_on_in_order(outlet: Any) -> None:
    called: list[int] = []
    answers = Answers(outlet, lambda: called.append(1))
    service = Service(answers, OUTBOX_HIGH_BYTES // 2)
    subscription = Subscription(b"ask", service)
    service.receive(Stretch(requests(b"a", b"b", b"c", b"d"), 0, 4, subscription, None, 1))
    service.receive(Stretch(requests(b"e", b"f"), 0, 2, subscription, None, 1))
    assert service.answered == [b"a", b"b"]
    assert answers.postponed
    answers.look_again()
    assert not called, "there is no room yet"
    answers.resume(2)
    assert service.answered == [b"a", b"b"]
    outlet.backlog_bytes = OUTBOX_HIGH_BYTES
    answers.release(OUTBOX_HIGH_BYTES)
    assert not called, "they are in its backlog"
    outlet.backlog_bytes = 0
    answers.look_again()
    assert called
    answers.resume(3)
    assert service.answered == [b"a", b"b", b"c", b"d"]
    answers.release(OUTBOX_HIGH_BYTES)
    answers.resume(4)
    assert service.answered == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert not answers.postponed
    called.clear()
    answers.release(OUTBOX_HIGH_BYTES)
    assert not called, "nothing waits"


def test_who_is_gone_is_not_answered(outlet: Any) -> None:
    called: list[int] = []
    answers = Answers(outlet, lambda: called.append(1))
    service = Service(answers, OUTBOX_HIGH_BYTES)
    service.receive(Stretch(requests(b"a", b"b"), 0, 2, Subscription(b"ask", service), None, 1))
    answers.forget()
    answers.release(OUTBOX_HIGH_BYTES)
    answers.resume(2)
    assert service.answered == [b"a"]
    assert not called


def high_water_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.parametrize(
    "request_line",
    [
        b'PUB $JS.API.DIRECT.GET.S r 9\r\n{"seq":1}\r\n',
        b"PUB $JS.API.DIRECT.GET.S.s r 0\r\n\r\n",
        b'PUB $JS.API.DIRECT.GET.S r 20\r\n{"next_by_subj":"s"}\r\n',
        b'PUB $JS.API.STREAM.MSG.GET.S r 9\r\n{"seq":1}\r\n',
    ],
    ids=["sequence", "last", "next", "message"],
)
def test_a_client_that_asks_for_much_gets_it_at_its_pace(
    start_server: Any, tmp_path: Path, request_line: bytes
) -> None:
    """Two hundred times what may lie in its outbox, asked for at once and read afterwards."""
    server = start_server("-js", "-sd", str(tmp_path))
    count = 200
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as wire:
        file = wire.makefile("rb")
        file.readline()
        create = b'{"name":"S","subjects":["s"],"allow_direct":true}'
        wire.sendall(
            b'CONNECT {"verbose":false,"headers":true}\r\nSUB r 1\r\nSUB a 2\r\n'
            b"PUB $JS.API.STREAM.CREATE.S a %d\r\n%b\r\n"
            % (len(create), create)
            + b"PUB s a %d\r\n%b\r\n" % (MEGABYTE, b"x" * MEGABYTE)
        )
        for _ in range(2):
            assert b'"error"' not in file.read(int(file.readline().split()[-1]) + 2)
        before = high_water_bytes(server.process.pid)
        wire.sendall(request_line * count)
        for _ in range(count):
            while (line := file.readline()) == b"PING\r\n":
                wire.sendall(b"PONG\r\n")
            verb, *_, size = line.split()
            assert verb in (b"MSG", b"HMSG")
            assert len(file.read(int(size) + 2)) > MEGABYTE
        assert high_water_bytes(server.process.pid) - before < 64 * MEGABYTE
