"""Small reads and writes whose connection is cut after byte 1, 2, 3, ... of each direction.

Bytes inside a frame stand for each other, because neither end takes anything of a part of one; that
is tried here for each byte. All of them played: `python -m tests.connector_sim.every_cut --all`.
"""

from __future__ import annotations

from types import ModuleType

import pytest

SCENES = (
    "read-consumer",
    "read-direct",
    "read-latest",
    "read-object",
    "write-auto-ledger",
    "write-auto",
    "write-column-ledger",
    "write-column",
    "write-none",
    "write-object",
    "write-bucket",
    "write-bucket-covered",
    "write-atomic-ledger",
    "write-atomic-none",
    "write-atomic-partition",
    "write-fast-ledger",
    "write-fast",
    "write-fast-none",
)


@pytest.mark.parametrize("name", SCENES)
def test_the_result_is_exact_wherever_the_connection_is_cut(
    every_cut: ModuleType, name: str
) -> None:
    scene = every_cut.SCENES[name]()
    spoken = scene.conversation()
    for wire in spoken:
        assert every_cut.check_whole_frames(wire, scene.keeper.process) > 1_500
    played = 0
    for cut in every_cut.distinct_cuts(spoken, is_brief=True):
        try:
            scene.perform(cut)
        except Exception as error:
            raise AssertionError(f"{cut}: {error}") from error
        played += 1
    assert played >= 60


def test_no_scene_is_forgotten(every_cut: ModuleType) -> None:
    assert set(every_cut.SCENES) == set(SCENES)
