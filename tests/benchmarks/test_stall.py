"""What the table of waits is made of, and one row of it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from benchmarks.servers import OURS
from benchmarks.stall import __main__ as stall
from benchmarks.stall.inputs import INPUTS, Input
from benchmarks.stall.sign_ins import SignIns
from benchmarks.stall.stolen import stolen_ms
from benchmarks.stall.witness import Waits
from benchmarks.wire import LoadError


def test_percentiles_are_those_of_all_waits():
    waits_ns = [n * 1_000_000 for n in range(1, 1001)]
    shares = [stall.percentile_ms(waits_ns, share) for _, share in stall.SHARES]
    assert shares == [501.0, 991.0, 1000.0, 1000.0]


def test_a_row_has_a_cell_for_each_heading():
    outcome = stall.Outcome(Waits([1_000_000], [2_000_000], [], 600_000), 0.5, 0.25, 21.4, 30.0)
    cells = stall.row("x", OURS, outcome)
    assert len(cells) == len(stall.head())
    assert cells[2:] == ["1.0"] * 4 + ["2.0"] * 4 + ["0.50", "0.25", "21", "30", "0.6"]
    outcome = stall.Outcome(Waits(sign_ins_ns=[3_000_000]), 0.5, 0.25, 21.4)
    cells = stall.row("x", OURS, outcome)
    assert len(cells) == len(stall.head(signs_in=True))
    assert cells[2:] == ["3.0"] * 4 + ["0.50", "0.25", "21", "0", "0.0"]
    assert stall.row("x", OURS, stall.Outcome(Waits(), failure="why")) == ["x", "ours", "why"]


def test_names_are_unique():
    names = [each.name for each in stall.ALL]
    assert len(set(names)) == len(names)


def test_a_server_that_is_kept_busy_shows_in_the_waits():
    requests = next(each for each in INPUTS if each.name == "50,000 unknown keys")
    outcome = stall.measure(OURS, requests)
    assert not outcome.failure
    assert len(outcome.waits.pings_ns) > 50 and len(outcome.waits.publishes_ns) > 50
    assert outcome.elapsed_s > 0
    assert outcome.pace_ms > 1
    assert 0 < outcome.waits.late_ns < max(outcome.waits.pings_ns + outcome.waits.publishes_ns)


def test_what_the_host_took_is_read(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 9 9 10\n")
    assert stolen_ms(stat) == 80 * 1000 / os.sysconf("SC_CLK_TCK")
    stat.write_text("cpu  1 2 3 4\n")
    assert stolen_ms(stat) == 0
    assert stolen_ms() >= 0


def test_an_input_without_end_is_given_up_on():
    endless = Input("endless", lambda port: threading.Event().wait())
    outcome = stall.measure(OURS, endless, longest_s=2)
    assert outcome.failure == "TimeoutError: it was not over within 2 s"
    assert not stall.measure(OURS, Input("nothing", lambda port: None), longest_s=60).failure


@contextlib.contextmanager
def _deaf_for_a_while(
    pause_s: float, answer: bytes = b"PONG\r\n"
) -> Iterator[tuple[int, list[float]]]:
    """Give the port of a server that lets clients in, or not, and for once takes its time; and when
    each of them came."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    come: list[float] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                if len(come) == 20:
                    time.sleep(pause_s)
                come.append(time.monotonic())
                with client, contextlib.suppress(OSError):
                    client.sendall(b"INFO {}\r\n")
                    client.recv(4096)
                    client.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], come
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_everybody_who_comes_meanwhile_waits():
    """A pause is seen by all who come in it, and by the first of them as a whole."""
    with _deaf_for_a_while(0.2) as (port, come):
        waits_ns = SignIns(port, {}, 60.0).run(lambda: len(come) >= 110)
    assert len(waits_ns) >= 100
    assert max(waits_ns) >= 190_000_000
    assert sum(wait_ns > 50_000_000 for wait_ns in waits_ns) >= 25


def test_clients_sign_in_while_a_server_works():
    requests = next(each for each in INPUTS if each.name == "50,000 unknown keys")
    outcome = stall.measure(OURS, requests, signs_in=True)
    assert not outcome.failure
    assert len(outcome.waits.sign_ins_ns) > 50 and not outcome.waits.pings_ns


def test_who_is_not_let_in_is_said():
    refusal = b"-ERR 'Authorization Violation'\r\n"
    with (
        _deaf_for_a_while(0.0, refusal) as (port, _),
        pytest.raises(LoadError, match="Authorization"),
    ):
        SignIns(port, {}, 30.0).run(lambda: False)


def test_an_input_that_fails_is_said_to(monkeypatch):
    def fail(port: int) -> None:
        raise OSError("gone")

    assert "gone" in stall.measure(OURS, Input("x", fail)).failure


@pytest.mark.parametrize(
    ("longest_ms", "again", "lines"), [(50, 2, 1), (50.1, 2, 3), (50.1, 0, 1), (51, 1, 2)]
)
def test_what_is_above_is_measured_again(monkeypatch, capsys, longest_ms, again, lines):
    waits = Waits([1_000_000], [int(longest_ms * 1e6)], [], 0)
    monkeypatch.setattr(stall, "measure", lambda *_, **__: stall.Outcome(waits))
    name = INPUTS[0].name
    assert stall.main([name, "--kinds", "ours", "--again", str(again)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.startswith(name) for line in said] == [False] + [True] * lines


def test_what_cannot_be_measured_is_not_measured_again(monkeypatch, capsys):
    failed = stall.Outcome(Waits(), failure="why")
    monkeypatch.setattr(stall, "measure", lambda *_, **__: failed)
    assert stall.main([INPUTS[0].name, "--kinds", "ours", "--again", "2"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 2
    signing = stall.Outcome(Waits(sign_ins_ns=[60_000_000]))
    assert stall.longest_ms(signing) == 60
