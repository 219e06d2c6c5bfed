"""What is done to a store: operations as plain data, made from a seed.

Which sequence an operation means is said by its place between the first and the last one, so that
it still means something after operations before it were left out.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

HEADERS = (b"", b"", b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nNats-TTL: 7s\r\n\r\n")

# Patterns of one filter, of which some have literals and some have none.
PATTERNS: tuple[tuple[bytes, ...], ...] = (
    (b">",),
    (b"a.1",),
    (b"a.*",),
    (b"*.2",),
    (b"a.>",),
    (b"b.*.c", b"a.2"),
    (b"*", b"*.1"),
    (b"none",),
    (b"none.>",),
    (b"a.1", b"b.>", b"a.1"),
    (b"b.>", b"*.*"),
    tuple(b"a.%d" % number for number in range(9)),
    tuple(b"*.%d" % number for number in range(1, 70)),
    tuple(b"b.%d.*" % number for number in range(1, 70, 3)),
)


class Stored(NamedTuple):
    """One message to be stored."""

    subject: bytes
    headers: bytes
    payload: bytes


class Place(NamedTuple):
    """A sequence, by where it is: thousandths of the way from the first to the last, and more."""

    thousandths: int
    beyond: int

    def between(self, first: int, last: int) -> int:
        """Return the sequence, which is not negative."""
        return max(first + (last - first) * self.thousandths // 1000 + self.beyond, 0)


class Operation(NamedTuple):
    """One thing to do, and what is asked afterwards.

    Attributes:
        name: of the method of `Pair`.
        options: its arguments.
        questions: from which the questions follow; 0 asks none.
    """

    name: str
    options: dict[str, Any]
    questions: int

    def __str__(self) -> str:
        options = ", ".join(f"{name}={_told(value)}" for name, value in self.options.items())
        return f"{self.name}({options})" + (f"  ask {self.questions}" if self.questions else "")


class Shape(NamedTuple):
    """What the stores of a seed are like, and what comes to them."""

    first_seq: int
    block_bytes: int
    chunk_bytes: int
    compression: str
    cipher: str
    lazily_ns: int
    subjects: tuple[bytes, ...]
    payload_bytes_max: int
    is_small: bool

    def __str__(self) -> str:
        values = self._asdict() | {"subjects": f"{len(self.subjects)} of them"}
        return ", ".join(f"{name}={value}" for name, value in values.items())


def shape_of(seed: int) -> Shape:
    """Return what the stores of a seed are like."""
    random = Random(f"shape {seed}")
    subjects = [b"a.%d" % number for number in range(random.choice([2, 5, 70]))]
    subjects += [b"b.%d.c" % number for number in range(random.choice([1, 3, 70]))]
    subjects += [b"a", b"c.2", b"d." + b"x" * 60][: random.randint(0, 3)]
    return Shape(
        first_seq=random.choice([0, 0, 0, 1, 2, 1000]),
        block_bytes=random.choice([1, 200, 600, 2_000, 8_000]),
        chunk_bytes=random.choice([50, 300, 5_000]),
        compression=random.choice(["none", "none", "s2"]),
        cipher=random.choice(["", "", "", "", "chacha", "aes"]),
        lazily_ns=random.choice([0, 0, 0, 10_000]),
        subjects=tuple(subjects),
        payload_bytes_max=random.choice([0, 30, 200]),
        is_small=random.random() < 0.8,
    )


def operations_of(seed: int, count: int) -> list[Operation]:
    """Return so many operations."""
    shape, random = shape_of(seed), Random(f"operations {seed}")
    # Each seed has its own habits, or each would be a mean of all.
    weights = [weight * random.choice([0, 1, 1, 3]) for _, weight, _ in _KINDS]
    weights[0] = max(weights[0], 12)
    asks = random.choice([0.2, 0.6, 1.0])
    names = [name for name, _, _ in _KINDS]
    makers = {name: make for name, _, make in _KINDS}
    made: list[Operation] = []
    for name in random.choices(names, weights, k=count):
        # What is changed in several places is best left half-way.
        if made and made[-1].options.get("erase") and random.random() < 0.15:
            name = "kill"
        options = makers[name](random, shape)
        questions = random.randrange(1, 1 << 20) if random.random() < asks else 0
        made.append(Operation(name, options, questions))
    return made


def _told(value: Any) -> str:
    """Return a value as it can be read, and put into a test: long payloads by their length."""
    if isinstance(value, list):
        return f"[{', '.join(map(_told, value))}]"
    if isinstance(value, Stored):
        headers = f", headers={value.headers!r}" if value.headers else ""
        return f"({value.subject!r}, {len(value.payload)} bytes{headers})"
    if isinstance(value, Place):
        return f"{value.thousandths / 10:g}%{value.beyond:+}"
    return repr(value)


def _place(random: Random) -> Place:
    thousandths = random.choice([0, 0, 1000, 1000, *[random.randint(0, 1000)] * 4])
    return Place(thousandths, random.choice([0, 0, random.randint(-3, 4)]))


def _places(random: Random) -> list[Place]:
    """Return places that are near each other, or anywhere, or all the same."""
    count = random.choice([1, 1, 2, 8, 30])
    if random.random() < 0.5:
        return [_place(random) for _ in range(count)]
    first = _place(random)
    step = random.choice([0, 1, 1, -1, 2])
    return [Place(first.thousandths, first.beyond + step * number) for number in range(count)]


def _messages(random: Random, shape: Shape) -> list[Stored]:
    count = random.choice([1, 1, 2, 5, 12, 40])
    some = random.choices(shape.subjects, k=random.choice([1, 2, count]))
    return [_message(random, shape, some) for _ in range(count)]


def _message(random: Random, shape: Shape, subjects: list[bytes] | tuple[bytes, ...]) -> Stored:
    # Bytes that are found again if they are anywhere; and those that can be compressed.
    size = random.randint(0, shape.payload_bytes_max)
    payload = random.randbytes(size) if random.random() < 0.5 else bytes(size)
    return Stored(random.choice(subjects), random.choice(HEADERS), payload)


def _append_run(random: Random, shape: Shape) -> dict[str, Any]:
    passes = random.choice([0, 1, 5, 200])
    spread = random.choice([None, None, None, 0, 1, 7])
    return {"messages": _messages(random, shape), "passes": passes, "spread": spread}


def _append(random: Random, shape: Shape) -> dict[str, Any]:
    gap = random.choice([0, 0, 1, 2, 5, 60])
    return {"message": _message(random, shape, shape.subjects), "gap": gap}


def _purge(random: Random, shape: Shape) -> dict[str, Any]:
    keep = random.choice([0, 0, 1, 4])
    below = None if keep or random.random() < 0.4 else _place(random)
    return {
        "patterns": _patterns(random, shape),
        "below": below,
        "keep": keep,
        "gives_way": random.random() < 0.2,
    }


def _purge_some(random: Random, shape: Shape) -> dict[str, Any]:
    return {
        "patterns": _patterns(random, shape),
        "start": _place(random),
        "stop": _place(random),
        "count_max": random.choice([1, 3, 9, 500]),
    }


def _limits(random: Random, shape: Shape) -> dict[str, Any]:
    return {
        "max_msgs": random.choice([-1, -1, -1, 0, 1, 10, 25, 60]),
        "max_bytes": random.choice([-1, -1, -1, 0, 200, 1_500, 6_000]),
        "max_age_ns": random.choice([0, 0, 5, 60, 400]),
        "max_msgs_per_subject": random.choice([-1, -1, 1, 1, 2, 5]),
    }


def _kill(random: Random, shape: Shape) -> dict[str, Any]:
    return {
        "dark_in": random.choice([None, random.randint(0, 40), random.randint(0, 5)]),
        "is_power": not shape.lazily_ns and random.random() < 0.6,
        "room": random.choice([None, None, None, 0, 100, 1_000]),
    }


def _crowd(random: Random, shape: Shape) -> dict[str, Any]:
    return {
        "room": random.choice([0, 30, 300, 2_000]),
        "messages": _messages(random, shape),
        "places": _places(random) if random.random() < 0.5 else [],
    }


def _patterns(random: Random, shape: Shape) -> tuple[bytes, ...]:
    """Return the patterns of a filter; none for everything."""
    if random.random() < 0.3:
        return (random.choice(shape.subjects),)
    return random.choice([(), (), *PATTERNS])


_Maker = Callable[[Random, Shape], dict[str, Any]]

# By name of the method, how often, and how its arguments are chosen.
_KINDS: tuple[tuple[str, int, _Maker], ...] = (
    ("append_run", 12, _append_run),
    ("append", 4, _append),
    ("skip", 1, lambda random, _: {"count": random.choice([0, 1, 4, 40])}),
    (
        "delete",
        6,
        lambda random, _: {"places": _places(random), "erase": random.random() < 0.5},
    ),
    ("truncate_front", 2, lambda random, _: {"to": _place(random)}),
    ("purge", 2, _purge),
    ("purge_some", 3, _purge_some),
    ("limit", 2, _limits),
    ("flush", 4, lambda random, _: {}),
    ("take", 4, lambda random, _: {"is_all": random.random() < 0.2}),
    ("carry", 3, lambda random, _: {}),
    ("complete", 3, lambda random, _: {}),
    (
        "reopen",
        2,
        lambda random, _: {"how": random.choice(["closed", "closed", "left", "abandoned"])},
    ),
    ("kill", 1, _kill),
    ("break_disk", 1, lambda random, _: {"fail_in": random.randint(0, 12)}),
    ("crowd_disk", 1, _crowd),
    ("recreate", 1, lambda random, _: {}),
    ("rest", 2, lambda random, _: {}),
    ("begin_gaps", 1, lambda random, _: {}),
    ("end_gaps", 1, lambda random, _: {}),
    ("compress", 1, lambda random, _: {"how": random.choice(["none", "s2"])}),
)
