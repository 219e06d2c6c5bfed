"""The threads that compare passwords: whose turn it is, how many wait, what is taken back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from jetstream_server.net import password_threads
from jetstream_server.net.password_threads import PasswordThreads


class Question:
    """Is right when its number is even; the first one of all waits until it may go on."""

    gate = threading.Event()

    def __init__(self, number: int) -> None:
        self.number = number

    def answer(self) -> bool:
        assert self.gate.wait(60)
        if self.number < 0:
            raise RuntimeError("a bug")
        return self.number % 2 == 0


async def compare(
    act: Callable[[PasswordThreads, Callable[[str, int], Any]], None], expected: int
) -> list[tuple[int, bool]]:
    """Let `act` ask while the only thread is held up; return the answers in their order."""
    heard: list[tuple[int, bool]] = []
    done = asyncio.Event()

    def wake() -> None:
        if len(heard) == expected:
            done.set()

    threads = PasswordThreads(wake, threads=1)
    Question.gate = threading.Event()

    def ask(host: str, number: int) -> Any:
        def answered(is_right: bool) -> None:
            heard.append((number, is_right))

        threads.ask(Question(number), host, answered)
        return answered

    act(threads, ask)
    assert not heard
    Question.gate.set()
    await asyncio.wait_for(done.wait(), 60)
    threads.stop()
    return heard


def test_addresses_take_turns():
    def act(threads: PasswordThreads, ask: Any) -> None:
        for number in range(4):
            ask("a", number)
        ask("b", 10)
        ask("c", 21)

    heard = asyncio.run(compare(act, 6))
    assert [number for number, _ in heard] == [0, 3, 10, 21, 2, 1]
    assert all(is_right is (number % 2 == 0) for number, is_right in heard)


def test_who_comes_after_many_wrong_ones_of_its_address_is_not_too_late():
    def act(threads: PasswordThreads, ask: Any) -> None:
        for number in range(1, 60, 2):
            ask("a", number)
        ask("a", 100)

    heard = asyncio.run(compare(act, 31))
    assert heard[:2] == [(1, False), (100, True)]


def test_only_so_many_wait(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(password_threads, "WAITING_OF_ADDRESS_MAX", 2)
    monkeypatch.setattr(password_threads, "WAITING_MAX", 3)

    def act(threads: PasswordThreads, ask: Any) -> None:
        for number in range(9):
            ask("a", number)  # one is being compared, two wait
        for number in (10, 11):
            ask("b", number)

    heard = asyncio.run(compare(act, 4))
    assert [number for number, _ in heard] == [0, 8, 11, 7]


def test_what_nobody_waits_for_is_not_compared():
    def act(threads: PasswordThreads, ask: Any) -> None:
        ask("a", 0)
        for answered in (ask("a", 1), ask("b", 2)):
            threads.forget(answered)
            threads.forget(answered)
        ask("b", 3)

    assert asyncio.run(compare(act, 2)) == [(0, True), (3, False)]


def test_what_cannot_be_compared_is_not_right():
    def act(threads: PasswordThreads, ask: Any) -> None:
        ask("a", -2)

    assert asyncio.run(compare(act, 1)) == [(-2, False)]


def test_stopping_leaves_nothing_to_do():
    def act(threads: PasswordThreads, ask: Any) -> None:
        for number in range(3):
            ask("a", number)
        threads.stop()

    assert asyncio.run(compare(act, 1)) == [(0, True)]
