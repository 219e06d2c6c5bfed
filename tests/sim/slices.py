"""Every bound on what is done at once, made so small that a simulated stream exceeds it.

What takes long is done in slices of thousands of messages, subjects or requests, and other clients,
flushes and crashes come in between. A simulated stream has a hundred messages, so without this
nothing would ever be cut.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import ModuleType

_BOUNDS = re.compile(
    r"_AT_ONCE(_MAX)?$|^_?SLICE_|_OF_TURN_MAX$|_OF_SESSION_MAX$"
    r"|^(UNITS_OF_TURN|OFFER_MESSAGES_MAX|LOOKED_AT_MAX|NUMBERED_MAX|_RUN_MAX)$"
)


@contextmanager
def small_slices(seed: int) -> Iterator[None]:
    """Have all bounds small while this lasts; how small each is follows from the seed."""
    before = list(_bounds())
    try:
        for module, name, value in before:
            # By name, so that a module that is loaded or not changes nothing for the others.
            chance = Random(f"{seed} {name} {value}")
            setattr(module, name, min(value, chance.choice(_sizes(name))))
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _sizes(name: str) -> list[int]:
    if "BYTES" in name:
        return [40, 200, 2_000]
    return [1, 5, 20] if name == "UNITS_OF_TURN" else [1, 2, 3, 10]


def _bounds() -> Iterator[tuple[ModuleType, str, int]]:
    for name, module in list(sys.modules.items()):
        if name.startswith("jetstream_server."):
            for constant, value in vars(module).items():
                if type(value) is int and _BOUNDS.search(constant):
                    yield module, constant, value
