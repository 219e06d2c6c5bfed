"""Small reads and writes whose connection is cut, after bytes that tell.

All bytes, of what is said otherwise as well: `python -m tests.connector_sim.every_cut`.
"""

from __future__ import annotations

from itertools import islice
from types import ModuleType

import pytest

# Between two cuts inside an answer of the API, or of the greeting.
STEP = 61
# Between two cuts inside a row or an ack, of whose ends none is left out.
ROW_STEP = 3

# Of the cuts of a batch so many are played: it differs little where in a row it is cut.
BATCH_CUTS = 5
# Of an object, which is several messages and more requests.
OBJECT_CUTS = 16

READS = ("read-consumer", "read-direct", "read-latest")
WRITES = ("write-auto-ledger", "write-auto", "write-column-ledger", "write-column", "write-none")
OBJECTS = ("write-object", "read-object")
BATCHES = (
    "write-bucket",
    "write-atomic-ledger",
    "write-atomic-none",
    "write-atomic-partition",
    "write-fast-ledger",
    "write-fast",
    "write-fast-none",
)


@pytest.mark.parametrize("name", READS + WRITES + BATCHES + OBJECTS)
def test_the_result_is_exact_wherever_the_connection_is_cut(
    every_cut: ModuleType, name: str
) -> None:
    scene = every_cut.SCENES[name]()
    played = 0
    every = OBJECT_CUTS if name in OBJECTS else BATCH_CUTS if name in BATCHES else 1
    row_step = ROW_STEP if every == 1 else 1
    cuts = every_cut.telling_cuts(scene.conversation(), STEP, row_step)
    for cut in islice(cuts, 0, None, every):
        try:
            scene.perform(cut)
        except Exception as error:
            raise AssertionError(f"{cut}: {error}") from error
        played += 1
    assert played > 150


def test_no_scene_is_forgotten(every_cut: ModuleType) -> None:
    assert set(every_cut.SCENES) == {*READS, *WRITES, *BATCHES, *OBJECTS}
