"""Sockets in a set of their own: how many are read from in a look, and in what order."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from jetstream_server.net import readiness
from jetstream_server.net.readiness import Readiness

Ends = tuple[socket.socket, socket.socket]
OnLoop = Callable[..., None]


class CountedSocket:
    """A socket of which only how often it was read from is of interest."""

    def __init__(self, own: socket.socket, heard: list[CountedSocket], *, takes: bool) -> None:
        self.own = own
        self._heard = heard
        self._takes = takes

    def read(self) -> None:
        self._heard.append(self)
        if self._takes:
            self.own.recv(100)


@pytest.fixture
def ends() -> Iterator[Callable[[], Ends]]:
    """Return what makes two ends of a connection."""
    made: list[socket.socket] = []

    def connected() -> Ends:
        pair = socket.socketpair()
        made.extend(pair)
        for each in pair:
            each.setblocking(False)
        return pair

    yield connected
    for each in made:
        each.close()


class StandingClock:
    """A clock that stands still, unless reading from a socket takes time."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return self.at


async def looks(count: int = 1) -> None:
    """Let the loop look at its sockets so often."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_no_more_than_so_many_are_read_from_before_others_have_a_turn(
    ends: Callable[[], Ends], on_loop: OnLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "SOCKETS_OF_LOOK_MAX", 3)

    async def main() -> None:
        looking, heard = (
            Readiness(asyncio.get_running_loop(), StandingClock(), ()),
            list[CountedSocket](),
        )
        for _ in range(10):
            own, other = ends()
            looking.watch(own.fileno(), CountedSocket(own, heard, takes=False))
            other.send(b"x")
        found: list[int] = []
        while len(heard) < 40:
            await looks()
            found.append(len(heard))
        steps = {after - before for before, after in itertools.pairwise(found)}
        assert steps <= {0, 3}, "the loop went on between any two looks"
        # Nobody took what was there, and still everybody was told of as often as the others.
        often = Counter(heard)
        assert len(often) == 10 and max(often.values()) - min(often.values()) <= 1
        looking.close()

    on_loop(main())


def test_a_look_is_over_when_it_has_taken_long(
    ends: Callable[[], Ends], on_loop: OnLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred clients of WebSocket sent so much that to take it apart took 8 ms."""
    monkeypatch.setattr(readiness, "SOCKETS_OF_LOOK_MAX", 100)
    clock = StandingClock()

    class SlowSocket(CountedSocket):
        def read(self) -> None:
            super().read()
            clock.at += readiness.LOOK_NS // 20

    async def main() -> None:
        looking = Readiness(asyncio.get_running_loop(), clock, ())
        heard = list[CountedSocket]()
        for _ in range(90):
            own, other = ends()
            looking.watch(own.fileno(), SlowSocket(own, heard, takes=False))
            other.send(b"x")
        found: list[int] = []
        behind: list[bool] = []
        while len(heard) < 360:
            await looks()
            if len(heard) > sum(found):
                found.append(len(heard) - sum(found))
                behind.append(looking.is_behind)
        # The clock is looked at after sixteen; those who are left come before anybody else.
        assert found == [32, 32, 26] * 4
        assert behind == [True, True, False] * 4
        assert heard == heard[:90] * 4 and len(set(heard)) == 90
        looking.close()

    on_loop(main())


def test_who_was_left_and_is_gone_is_not_read_from(
    ends: Callable[[], Ends], on_loop: OnLoop
) -> None:
    clock = StandingClock()

    async def main() -> None:
        looking = Readiness(asyncio.get_running_loop(), clock, ())
        heard = list[CountedSocket]()
        own = [ends() for _ in range(20)]

        class Last(CountedSocket):
            def read(self) -> None:
                super().read()
                clock.at += readiness.LOOK_NS

        for mine, other in own:
            looking.watch(mine.fileno(), Last(mine, heard, takes=True))
            other.send(b"x")
        while not heard:
            await looks()
        assert len(heard) == 16 and looking.is_behind
        for mine, _ in own[16:]:
            looking.forget(mine.fileno())
        again, other = ends()
        looking.watch(again.fileno(), CountedSocket(again, heard, takes=True))
        other.send(b"x")
        await looks(5)
        assert len(heard) == 17 and heard[-1].own is again
        assert not looking.is_behind
        looking.close()

    on_loop(main())


def test_who_is_forgotten_by_another_ones_read_is_not_read_from(
    ends: Callable[[], Ends], on_loop: OnLoop
) -> None:
    async def main() -> None:
        looking, heard = Readiness(asyncio.get_running_loop(), StandingClock(), ()), list[str]()
        sockets = {name: ends() for name in ("first", "second")}

        class Jealous:
            def __init__(self, name: str, other: str) -> None:
                self.name, self.other = name, other

            def read(self) -> None:
                heard.append(self.name)
                looking.forget(sockets[self.other][0].fileno())
                sockets[self.name][0].recv(100)

        for name, other in (("first", "second"), ("second", "first")):
            looking.watch(sockets[name][0].fileno(), Jealous(name, other))
        for _, far in sockets.values():
            far.send(b"x")
        await looks(10)
        assert len(heard) == 1
        looking.close()

    on_loop(main())


def test_a_number_that_is_given_out_anew_is_another_socket(
    ends: Callable[[], Ends], on_loop: OnLoop
) -> None:
    async def main() -> None:
        looking, heard = (
            Readiness(asyncio.get_running_loop(), StandingClock(), ()),
            list[CountedSocket](),
        )
        own, _ = ends()
        number = own.fileno()
        before = CountedSocket(own, heard, takes=True)
        looking.watch(number, before)
        looking.forget(number)
        own.close()
        again, other = ends()
        assert number in (again.fileno(), other.fileno())
        if number == other.fileno():
            again, other = other, again
        after = CountedSocket(again, heard, takes=True)
        looking.watch(number, after)
        other.send(b"x")
        await looks(5)
        assert heard == [after]
        looking.close()

    on_loop(main())


def test_after_the_end_nobody_is_watched(ends: Callable[[], Ends], on_loop: OnLoop) -> None:
    async def main() -> None:
        looking, heard = (
            Readiness(asyncio.get_running_loop(), StandingClock(), ()),
            list[CountedSocket](),
        )
        before, after = ends(), ends()
        looking.watch(before[0].fileno(), CountedSocket(before[0], heard, takes=True))
        looking.close()
        looking.watch(after[0].fileno(), CountedSocket(after[0], heard, takes=True))
        for _, other in (before, after):
            other.send(b"x")
        await looks(5)
        looking.forget(before[0].fileno())
        assert not heard

    on_loop(main())


class Guest:
    """A socket that is read from as a client's is: until its other side has ended."""

    def __init__(self, looking: Readiness, own: socket.socket, heard: list[Guest]) -> None:
        self.own = own
        self._looking = looking
        self._heard = heard
        self.said = b""
        self.has_ended = False

    def read(self) -> None:
        self._heard.append(self)
        said = self.own.recv(2)
        self.said += said
        if not said:
            self.has_ended = True
            self._looking.forget(self.own.fileno())


def guests(
    looking: Readiness, ends: Callable[[], Ends], heard: list[Guest], said: list[bytes]
) -> tuple[list[Guest], list[socket.socket]]:
    """Return so many who are watched and have said that, and their other sides."""
    inside, outside = [], []
    for each in said:
        own, other = ends()
        guest = Guest(looking, own, heard)
        looking.watch(own.fileno(), guest)
        other.send(each)
        inside.append(guest)
        outside.append(other)
    return inside, outside


@pytest.fixture
def small_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have looks find four, and few be read from that have ended."""
    monkeypatch.setattr(readiness, "SOCKETS_OF_LOOK_MAX", 4)
    monkeypatch.setattr(readiness, "ENDED_OF_BUSY_LOOK", 1)
    monkeypatch.setattr(readiness, "ENDED_OF_LOOK", 3)


def _shut_one_way(end: socket.socket) -> None:
    end.shutdown(socket.SHUT_WR)


@pytest.mark.usefixtures("small_looks")
@pytest.mark.parametrize("end", [socket.socket.close, _shut_one_way])
def test_who_has_ended_waits_for_those_who_go_on(
    ends: Callable[[], Ends], on_loop: OnLoop, end: Callable[[socket.socket], None]
) -> None:
    """Ten thousand that were reset kept others waiting for up to 50 ms: they were in line first."""

    async def main() -> None:
        looking = Readiness(asyncio.get_running_loop(), StandingClock(), ())
        heard = list[Guest]()
        gone, outside = guests(looking, ends, heard, [b"x"] * 12)
        for other in outside:
            end(other)
        (last,), _ = guests(looking, ends, heard, [b"y"])
        while last not in heard:
            await looks()
        # Three looks were full, and with each came one that has ended; the last one heard all.
        assert heard.index(last) <= 3
        found = [len(heard)]
        while not all(guest.has_ended for guest in gone):
            await looks()
            found.append(len(heard))
        steps = Counter(after - before for before, after in itertools.pairwise(found))
        assert steps[3] > 4 > max(steps), "more of them as soon as there is time"
        assert [guest.said for guest in gone] == [b"x"] * 12, "what they had said was heard first"
        assert Counter(heard) == {**dict.fromkeys(gone, 2), last: 1}
        looking.close()

    on_loop(main())


@pytest.mark.usefixtures("small_looks")
def test_a_full_look_is_forgotten_when_nobody_else_is_there(
    ends: Callable[[], Ends], on_loop: OnLoop
) -> None:
    async def main() -> None:
        looking = Readiness(asyncio.get_running_loop(), StandingClock(), ())
        heard = list[Guest]()
        _, outside = guests(looking, ends, heard, [b"x"] * 8)
        for other in outside:
            other.close()
        found = [0]
        while len(heard) < 16:
            await looks()
            found.append(len(heard))
        assert max(after - before for before, after in itertools.pairwise(found)) == 3
        looking.close()

    on_loop(main())


@pytest.mark.usefixtures("small_looks")
def test_who_has_ended_is_read_from_although_looks_are_always_full(
    ends: Callable[[], Ends], on_loop: OnLoop
) -> None:
    async def main() -> None:
        looking = Readiness(asyncio.get_running_loop(), StandingClock(), ())
        heard = list[Guest]()
        gone, outside = guests(looking, ends, heard, [b"x", b"aabbcc"])
        for other in outside:
            other.close()
        busy, others = guests(looking, ends, heard, [b"y" * 2000] * 6)
        while not all(guest.has_ended for guest in gone):
            await looks()
            for other in others:
                other.send(b"y" * 2)  # there is always more
        # They take turns, so that the one who has said more does not keep the other waiting.
        order = [guest for guest in heard if guest in gone]
        assert order[:4] == [order[0], order[1]] * 2 and order[0] is not order[1]
        assert [guest.said for guest in gone] == [b"x", b"aabbcc"]
        assert all(heard.count(guest) >= 4 for guest in busy)
        looking.close()

    on_loop(main())


@pytest.mark.usefixtures("small_looks")
def test_where_nobody_may_wait_who_has_ended_is_read_from_in_its_place(
    ends: Callable[[], Ends], on_loop: OnLoop
) -> None:
    async def main() -> None:
        looking = Readiness(asyncio.get_running_loop(), StandingClock(), ())
        looking.may_put_off = False
        heard = list[Guest]()
        gone, outside = guests(looking, ends, heard, [b"x"] * 4)
        for other in outside:
            other.close()
        (last,), _ = guests(looking, ends, heard, [b"y"])
        while last not in heard:
            await looks()
        assert heard[:5] == [*gone, last]
        looking.close()

    on_loop(main())


@pytest.mark.usefixtures("small_looks")
def test_who_waits_is_forgotten_like_others_and_at_the_end(
    ends: Callable[[], Ends], on_loop: OnLoop
) -> None:
    async def main() -> None:
        looking = Readiness(asyncio.get_running_loop(), StandingClock(), ())
        heard = list[Guest]()
        gone, outside = guests(looking, ends, heard, [b"x"] * 4)
        for other in outside:
            other.close()
        while not looking.is_behind:
            await looks()
        assert not heard, "all four wait"
        for guest in gone[:2]:
            looking.forget(guest.own.fileno())
        # Its number is free for another one, who is watched as if nobody had waited.
        number = gone[0].own.fileno()
        gone[0].own.close()
        again, other = ends()
        assert number in (again.fileno(), other.fileno())
        again, other = (again, other) if again.fileno() == number else (other, again)
        late = Guest(looking, again, heard)
        looking.watch(number, late)
        other.send(b"z")
        while not (late.said and gone[2].has_ended and gone[3].has_ended):
            await looks()
        assert not any(guest in heard for guest in gone[:2])
        more, outside = guests(looking, ends, heard, [b"x"] * 4)
        for other in outside:
            other.close()
        while not looking.is_behind:
            looking.is_behind = False
            await looks()
        heard.clear()
        looking.close()
        await looks(5)
        assert not heard and not any(guest.has_ended for guest in more)

    on_loop(main())


@pytest.mark.usefixtures("small_looks")
def test_one_that_cannot_be_read_from_does_not_keep_others_who_wait(
    ends: Callable[[], Ends], on_loop: OnLoop
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        planted = list[str]()
        loop.set_exception_handler(lambda _, context: planted.append(str(context["exception"])))
        looking = Readiness(loop, StandingClock(), ())
        heard = list[Guest]()

        class Broken(Guest):
            def read(self) -> None:
                self._looking.forget(self.own.fileno())
                raise RuntimeError("planted")

        own, other = ends()
        looking.watch(own.fileno(), Broken(looking, own, heard))
        other.close()
        gone, outside = guests(looking, ends, heard, [b"x"] * 3)
        for other in outside:
            other.close()
        while not all(guest.has_ended for guest in gone):
            await looks()
        assert planted == ["planted"]
        looking.close()

    on_loop(main())


def test_who_comes_while_clients_are_few_is_read_from_by_the_loop(
    on_loop: OnLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "READ_BY_LOOP_MAX", 2)
    clients: list[int] = []

    async def main() -> None:
        looking, found = (
            Readiness(asyncio.get_running_loop(), StandingClock(), clients),
            list[bool](),
        )
        for number in range(3):
            found.append(looking.are_few)
            clients.append(number)
        assert found == [True, True, False]

    on_loop(main())
