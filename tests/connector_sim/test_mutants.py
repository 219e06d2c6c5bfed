"""The simulator notices defects: one planted for each kind of program.

More, and how many seeds each takes: `python -m tests.connector_sim.mutants`.
"""

from __future__ import annotations

from types import ModuleType

SEEDS_MAX = 12


def test_planted_defects_are_noticed(mutants: ModuleType) -> None:
    kinds = set()
    for name, mutant in mutants.MUTANTS.items():
        if not mutant.is_rare:
            played, found = mutants.first_that_notices(mutant, range(300), SEEDS_MAX)
            assert found, f"{name}: not noticed in {played} seeds"
            kinds.add(mutant.kind)
    of_programs = {"atomic", "objects", "origin", "lag", "dead", "anew", "bucket", "forgotten"}
    assert kinds == {*of_programs, "older", "fast", "names", "clusters", "crowds"}
