"""Bounds of the server made so small that a simulated stream exceeds them.

What takes long is done in slices of thousands of messages, subjects or requests, and other clients,
flushes and crashes come in between; logs are begun anew, blocks rewritten and indexes built when
they are large. A simulated stream has a hundred messages, so without this nothing of that would
ever be tried.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random
from types import ModuleType

_SLICES = re.compile(
    r"_AT_ONCE(_MAX)?$|^_?SLICE_|_OF_TURN_MAX$|_OF_SESSION_MAX$"
    r"|^(UNITS_OF_TURN|OFFER_MESSAGES_MAX|_?LOOKED_AT_MAX|NUMBERED_MAX|_RUN_MAX)$"
)

# By name; of a few modules that have one of the same name each gets its own.
_STRUCTURES = {
    # logs, blocks and files
    "FILE_BYTES_MIN": [60, 300, 2_000],
    "FILE_ENTRIES_MIN": [1, 2, 8],
    "LAZY_SYNC_EVERY": [1, 3, 10],
    "WORN_BYTES": [500, 5_000],
    "ABANDON_BYTES": [50, 500, 5_000],
    "COMPACT_MIN_BYTES": [100, 1_000, 10_000],
    "FIRST_ROOM_BYTES": [200, 2_000],
    "MARK_BYTES": [100, 1_000],
    "RESTING_SHARE": [1, 2, 4],
    "REOPEN_BYTES": [100, 1_000, 10_000],
    "PIECE_BYTES": [200],
    "CLEARED_FILES": [1, 2],
    "RUBBISH_FILES": [1],
    "PLACED_FILES": [1, 3],
    "CROWD_OPERATIONS": [1, 5],
    "_TOGETHER_MAX": [1, 2],
    "_QUICK_WRITES_MAX": [1, 3],
    "_QUICK_BYTES_MAX": [1, 300],
    "_STATE_BESIDE_MAX": [1, 100],
    # what is remembered, and swept
    "RENUMBER_MIN": [1, 3],
    "CACHED_BLOCKS_MAX": [1, 2, 5],
    "INFLATED_BYTES_MAX": [1, 5_000],
    "CACHE_ENTRIES_MAX": [1, 5],
    "ROUTES_MAX": [1, 4],
    "ROUTES_BYTES_MAX": [1, 300],
    "_SWEEP_MIN": [1, 4, 20],
    "_KEPT_MAX": [1, 5],
    "_KEPT_MIN": [1, 4],
    "_REBUILD_ENTRIES_MIN": [1, 4],
    "_SPELLS_MAX": [1, 3],
    "_REMEMBERED_MAX": [1, 3],
    "_REMEMBERED_BYTES_MAX": [1, 30],
    "_DECISIONS_MAX": [1, 3],
    "_SETS_KEPT": [1],
    "_BLOCKS_REMEMBERED": [1],
    "_BLOCKS_MAX": [1, 3],
    # when one way of looking gives way to another
    "_SPARSE_COUNT_MIN": [1, 4],
    "_SNAPSHOT_COUNT_MAX": [1, 4],
    "_FEW_CONSUMERS": [1, 2],
    "_FEW_MESSAGES": [1, 3],
    "_FEW_SUBJECTS": [1, 3],
    "_FEW_REACHED": [1],
    "_MANY_CONSUMERS": [1, 3],
    "TREE_TOKENS_MAX": [1, 2, 3],
    "_COMPARED_MAX": [1],
    "COMPARED_MAX": [1],
    "NOTED_MAX": [1, 2],
    "_FEW_FILTERS": [0, 1],
    "_BOUNDS_MAX": [1, 5],
    "_BOUNDS_TRIED": [1, 2],
    "_LITERALS_LOOKED_FOR": [1, 2],
    "_PATTERNS_LOOKED_FOR": [1],
    "_PIECE_ENTRIES": [1, 4],
    "PIECE_MAX": [1, 3],
    "_PIECE_MAX": [1, 3],
    "_TUPLE_MEMBERS_MAX": [1],
    "_BULK_MAX": [1, 3],
    # how much is read, told or stored together
    "WINDOW_MESSAGES": [1, 3],
    "TURN_BYTES": [200, 5_000],
    "PIECE_CHUNKS_MAX": [1],
    "OBJECTS_MAX": [1],
    "_BLOCK_MESSAGES": [1, 3],
    "_TURN_BLOCKS": [1],
    "_ADVANCE_BYTES": [100, 1_000],
}

_Sizes = Callable[[str], list[int]]


def small_slices(seed: int) -> AbstractContextManager[None]:
    """Have little done at once while this lasts; how little follows from the seed."""
    return _small(seed, _slice_sizes)


def small_structures(seed: int) -> AbstractContextManager[None]:
    """Have all be large that holds a few messages, while this lasts, and little done at once."""
    return _small(seed, lambda name: _STRUCTURES.get(name) or _slice_sizes(name))


def _slice_sizes(name: str) -> list[int]:
    if not _SLICES.search(name):
        return []
    if "BYTES" in name:
        return [40, 200, 2_000]
    # With one a turn takes a message or two, and clients wait for longer than they are patient.
    return [10, 5, 20] if name == "UNITS_OF_TURN" else [1, 2, 3, 10]


@contextmanager
def _small(seed: int, sizes: _Sizes) -> Iterator[None]:
    before = [(*bound, sizes(bound[1])) for bound in _bounds() if sizes(bound[1])]
    try:
        for module, name, value, choice in before:
            # By name, so that a module that is loaded or not changes nothing for the others.
            chance = Random(f"{seed} {name} {value}")
            setattr(module, name, min(value, chance.choice(choice)))
        yield
    finally:
        for module, name, value, _ in before:
            setattr(module, name, value)


def _bounds() -> Iterator[tuple[ModuleType, str, int]]:
    for name, module in list(sys.modules.items()):
        if name.startswith("jetstream_server.") and ".kernels" not in name:
            for constant, value in vars(module).items():
                if type(value) is int and constant.isupper():
                    yield module, constant, value
