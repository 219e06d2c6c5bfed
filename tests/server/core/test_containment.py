"""What is given up for an exception, and what goes on to the caller."""

from __future__ import annotations

import pytest
from jetstream_server.core import fault_domains
from jetstream_server.core.containment import UNCONTAINED, Containment
from jetstream_server.core.fault_domains import Domain, Row
from jetstream_server.protocol.ops import PubRun


class Inner:
    def __init__(self) -> None:
        self.given_up = []

    def act(self, error: Exception, run: PubRun | None = None) -> None:
        raise error

    def look(self, error: Exception) -> None:
        raise error

    def give_up(self, incident, now: int) -> None:
        self.given_up.append((incident, now))


class Outer:
    def __init__(self, inner: Inner) -> None:
        self.inner = inner

    def act(self, error: Exception, run: PubRun | None = None) -> None:
        self.inner.act(error, run)


class Disk:
    def act(self, error: Exception, run: PubRun | None = None) -> None:
        raise error


@pytest.fixture
def log():
    return []


@pytest.fixture
def containment(log, monkeypatch):
    places = {
        "Inner": Row(Domain.STREAM, "self"),
        "Inner.look": Row(Domain.REQUEST),
        "Outer": Row(Domain.CONSUMER, "self.inner"),
        "Disk": Row(Domain.PROCESS),
    }
    monkeypatch.setattr(fault_domains, "PLACES", places)
    return Containment(lambda level, text: log.append((level, text)))


def contain(containment, act, *given):
    try:
        act(*given)
    except Exception as error:
        return containment.contain(error, 42)


def test_off_it_contains_nothing():
    inner = Inner()
    with pytest.raises(ZeroDivisionError):
        contain(UNCONTAINED, inner.act, ZeroDivisionError())
    assert inner.given_up == [] and UNCONTAINED.total == 0


def test_what_it_came_through_is_given_up_once(containment):
    inner = Inner()
    incident = contain(containment, Outer(inner).act, ValueError("x"))
    assert inner.given_up == [(incident, 42)]
    assert incident.domain is Domain.STREAM  # the widest
    assert containment.counts[Domain.STREAM] == containment.total == 1


def test_code_that_only_looks_costs_the_request(containment):
    inner = Inner()
    incident = contain(containment, inner.look, ValueError())
    assert inner.given_up == [] and incident.domain is Domain.REQUEST


def test_what_the_table_does_not_know_goes_on_to_the_caller(containment):
    with pytest.raises(ValueError, match="no number"):
        contain(containment, int, "no number")
    assert containment.total == 0


def test_what_could_break_a_promise_goes_on_to_the_caller(containment):
    inner = Inner()
    inner.act = Disk().act  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="half written"):
        contain(containment, Outer(inner).act, ValueError("half written"))
    assert inner.given_up == []


def test_without_memory_nothing_is_promised(containment):
    inner = Inner()
    with pytest.raises(MemoryError):
        contain(containment, inner.act, MemoryError())
    assert inner.given_up == []


def test_each_cause_is_logged_once_with_its_place(containment, log):
    for _ in range(3):
        contain(containment, Inner().act, ValueError("x"))
    contain(containment, Inner().act, TypeError("x"))
    assert [level for level, _ in log] == ["ERR", "ERR"]
    first = log[0][1].split("\n")[0]
    assert first == "incident 1 contained, stream given up: ValueError: 'x'"
    assert "in act" in log[0][1] and "test_containment.py" in log[0][1]
    assert containment.total == 4


def test_what_a_client_sends_forges_no_line_of_the_log(containment, log):
    contain(containment, Inner().act, ValueError("a\n[1] [INF] all is well" + "b" * 5000))
    first = log[0][1].split("\n")[0]
    assert "all is well" in first and len(first) < 500


def test_the_same_input_at_the_same_place_is_known_again(containment):
    def identity(error: Exception, payload: bytes) -> bytes:
        run = PubRun.of([(b"a", b"", b"", payload)])
        return contain(containment, Inner().act, error, run).identity

    first = identity(ValueError("1"), b"x")
    assert identity(ValueError("2"), b"x") == first
    assert identity(ValueError("1"), b"y") != first
    assert identity(TypeError("1"), b"x") != first


def test_what_is_told_to_others_names_no_internals(containment):
    incident = contain(containment, Inner().act, ValueError("secret"))
    assert str(incident) == "internal server error (incident 1 in the server's log)"
