"""Consumers with as many filters as a request holds, which come, change, go, and are looked for."""

from __future__ import annotations

import time

from benchmarks.stall.crowds import say
from benchmarks.stall.inputs import Act, Input, ask, consumer, stream

_MESSAGE = b"PUB S.x 0\r\n\r\n"


def _filtered(name: str, form: str, count: int, first: int = 0) -> tuple[str, object]:
    """Return the request for a consumer with so many filters."""
    filters = [form.format(number) for number in range(first, first + count)]
    return consumer(name, filter_subjects=filters, mem_storage=True)


def _consumers(consumers: int, count: int, **settings: object) -> Act:
    """Make stream S, and so many consumers with so many filters each."""

    def prepare(port: int) -> None:
        ask(port, stream(storage="memory", **settings))
        for number in range(consumers):
            ask(port, _filtered(f"c{number}", "S.{:x}", count))

    return prepare


def _few_consumers(port: int) -> None:
    """Make stream S with a message, and 9 consumers with a filter each."""
    few = (consumer(f"few{n}", filter_subject=f"S.q{n}", mem_storage=True) for n in range(9))
    ask(port, stream(storage="memory"), *few)
    say(port, [_MESSAGE])


def _made_and_removed(form: str, count: int) -> Act:
    def act(port: int) -> None:
        for _ in range(3):
            ask(port, _filtered("c", form, count))
            say(port, [_MESSAGE])
            ask(port, ("CONSUMER.DELETE.S.c", None))

    return act


def _publish(port: int) -> None:
    say(port, [_MESSAGE])
    time.sleep(1)


def _change(port: int) -> None:
    """Change the filters of a consumer four times, after the first message."""
    say(port, [_MESSAGE])
    for number in range(4):
        ask(port, _filtered("c0", "S.{:x}", 50_000, first=number * 7))


FILTERS = [
    Input(
        "a consumer with 60,000 filters beside 9, made and removed 3 times",
        _made_and_removed("S.{:x}", 60_000),
        _few_consumers,
    ),
    Input(
        "a consumer with 50,000 filters with stars beside 9, made and removed 3 times",
        _made_and_removed("S.*.{:x}", 50_000),
        _few_consumers,
    ),
    Input(
        "the first message for 12 consumers with 50,000 filters each",
        _publish,
        _consumers(12, 50_000),
    ),
    Input(
        "the first message of interest for 8 consumers with 60,000 filters each",
        _publish,
        _consumers(8, 60_000, retention="interest"),
    ),
    Input(
        "the filters of one of 12 consumers with 50,000 each changed 4 times",
        _change,
        _consumers(12, 50_000),
    ),
]
