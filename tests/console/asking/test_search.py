"""Searches: what is found, how far they are, and that they stop."""

from __future__ import annotations

import asyncio

import pytest
from jetstream_console.asking.messages import Message, MessageReader
from jetstream_console.asking.search import FOUND_MAX, SearchStep, Wanted, search


@pytest.mark.parametrize(
    ("wanted", "is_found"),
    [
        (Wanted(">", "ORD"), True),
        (Wanted(">", "ORD", minds_case=True), False),
        (Wanted(">", "ord", in_subject=False), False),
        (Wanted(">", "grün"), True),
        (Wanted(">", "GRÜN", in_payload=False), False),
        (Wanted(">", "Ist Gr", minds_case=True), False),
        (Wanted(">", "\udcff\udcfe"), True),
        (Wanted(">", ""), True),
    ],
)
def test_a_text_is_in_a_subject_or_a_payload(wanted, is_found):
    payload = "alles ist grün".encode() + b"\xff\xfe"
    assert wanted.is_in(Message(1, "orders.new", None, b"", payload)) is is_found


def test_a_stream_is_searched_to_its_end(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"x%dx" % number for number in range(600)])
            reader = MessageReader(world.api, name)
            steps = [step async for step in search(reader, Wanted(">", "x5"))]
            assert [each.sequence for step in steps for each in step.found] == [
                6,
                *range(51, 61),
                *range(501, 601),
            ]
            shares = [step.share for step in steps]
            assert len(steps) > 2 and shares == sorted(shares) and shares[-1] == 1
            assert (steps[-1].looked_at, steps[-1].is_full) == (600, False)
            [step] = [step async for step in search(reader, Wanted(">", "x599x"), 590)]
            assert [each.sequence for each in step.found] == [600] and step.looked_at == 11
            assert [step async for step in search(reader, Wanted(">", ""), 700)] == []

    run(work())


def test_it_ends_when_enough_is_found_and_says_where_to_go_on(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"x"] * (FOUND_MAX + 10))
            reader = MessageReader(world.api, name)
            *_, last = [step async for step in search(reader, Wanted(">", "x"))]
            assert last.is_full and last.position == FOUND_MAX + 1
            rest = [step async for step in search(reader, Wanted(">", "x"), last.position)]
            assert sum(len(step.found) for step in rest) == 10 and not rest[-1].is_full

    run(work())


def test_who_takes_no_more_steps_has_stopped_it(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"x"] * 700)
            asked = []
            ask = world.api.ask

            async def counted(what, body=None):
                asked.append(what)
                return await ask(what, body)

            world.api.ask = counted
            steps = search(MessageReader(world.api, name), Wanted(">", "y"))
            assert (await anext(steps)).share < 0.5
            await steps.aclose()  # type: ignore[attr-defined]
            before = len(asked)
            await asyncio.sleep(0.05)
            assert len(asked) == before < 400

    run(work())


def test_a_share_is_never_more_than_the_whole():
    assert SearchStep((), 5, 5, 5, 0).share == 1.0
    assert SearchStep((), 1, 12, 11, 0).share == 1.0
