"""Whole queries through faults: some seeds on every run, and those that once found something.

Those that follow by command, and every night: `make sim-connector`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SEEDS = 160
BLOCK = 20

# Seeds that found a defect, with what was wrong, as they were played before there were the later
# kinds of program. What a seed does changes with the simulator; that a defect does not return is
# what the tests of its module are for.
FOUND = {
    20204: "a zombie that read behind the purge of its batch was taken for the query (simulator)",
    110805: "direct gets were answered by a stream that was made anew while a task read",
    100145: "a restart of the bundled server acknowledged what had left the stream unread",
    110874: "the same, after a power cut",
    110360: "the same; it moved a consumer's floor to the stream's beginning",
    20946: "what a ghost's tasks were told, behind the purge, was the query's (simulator)",
    30906: "the same, of a ghost whose tasks began after the next driver had",
    19: "a server that waited too long for CONNECT over a stalled link was taken to refuse us",
    1514: "a stream deleted while a query that went on checked it was not found, instead of lost",
    4196: "a message that expired while a task read by direct get was passed over without a word",
}
# The same with the later kinds.
FOUND_OF_KINDS = {
    510044: "what went after the last look at a stream was not counted with the batch it went from",
    1001295: "what went while the first batch of a stream made anew was read was not counted",
    1001307: "the same",
    1001222: "a stream deleted between a commit's look and its purge ended the query",
}

# The same with fast batches, and with what killed processes had sent.
FOUND_OF_MODES = {
    1003418: "an interest stream made anew, of which a query reads some subjects, was not counted",
    1004612: "a restarted server had forgotten replaced rows: an object ended with an older one",
    1005045: "a stream deleted while a new query checked it was refused by the word of the server",
    1005356: "chunks removed between a consumer's count and its delivery were waited for",
    1012758: "a message stored twice, as its ack came behind the window, was not known (simulator)",
    1010223: "what was kept for the consumer of a task, which goes, was taken for kept (simulator)",
    1005715: "a work queue made anew in that moment was read through a consumer",
    1028186: "a batch had rows of two blocks, after an attempt that ended within the first",
    1025937: "chunks came behind the end of the patience of the write (simulator)",
    1042867: "a stream deleted while the anchor of a restarted query was checked ended the query",
    1045130: "a row that is its own id, too long with both, was taken for a short one (simulator)",
    1040860: "a batch of objects read by two drivers was not the same batch (simulator)",
    1027217: "a loss was told a batch before the one that had room for its stream (simulator)",
    1053945: "an anchor was made in a stream's successor, behind its first message",
    1065159: "what a driver taken for dead wrote after the batch's end was not counted (simulator)",
}

# The same with options that are changed between two runs of a query.
FOUND_OF_RETUNING = {
    2000163: "a torn batch was cut into other tasks after a restart, and its rows written twice",
    2000378: "the same",
}

# The same with servers that are given an older copy of their files.
FOUND_OF_OLDER = {
    589: "what was stored again while the stream was behind its query was passed over uncounted",
    1950: "the same",
    3578: "the same",
    751: "a stream came so far again while a task looked, which read nothing and was content",
    41: "rows of a batch that was being written were gone, and it was committed without a word",
    238: "the same",
    5963: "a task looked before files were put back and wrote after: its rows were not found",
    1576: "what a task was told before the files were put back was asked for (simulator)",
    3429: "the same, by the entry that it had left in the ledger (simulator)",
    1579: "what a batch missed that read too early is counted with no batch (simulator)",
    3579: "a commit that began before the files were put back may be noted after (simulator)",
    9679: "that acknowledged rows are gone is an error of the sink (simulator)",
    14146: "a batch that had no rows has some when it runs again; LEDGER (simulator)",
    14576: "the newest message was of a subject that nobody keeps; ten seconds (simulator)",
}

# The same with others who write into the sink stream then.
FOUND_OF_RIVALS = {
    2579: "rows of a batch were gone and its stream as far again: it was committed without a word",
    2790: "the same",
    3073: "the same",
    15031: "the same, of rows that an earlier run had committed and this one passed over",
    111612: "the same, of rows of a task that found them written, in a stream that was behind",
    120273: "a batch that its ledger had read other messages when it ran again (simulator)",
    107369: "two messages had the same payload, so one was there too often (simulator)",
}
# Played with all there is by now.
FOUND_SINCE = {
    1254655: "files were put back that were older than the ledger, and nothing else (simulator)",
    1371202: "a server that starts slowly did so as the faults ended (simulator)",
    1467488: "rows were stored while the server stopped, before files were put back (simulator)",
    1470266: "the first ten seconds of what was given a second time were not counted",
    1490413: "a row found on a restarted server spoke for rows that the one before had told of",
    1512123: "a batch took longer than a window and was not committed (simulator)",
    1516347: "the ledger was away for longer than an outage may last",
    1444603: "a purge was under way while its stream was made again (simulator)",
    1564495: "a run with availableNow purged what a put-back server had stored again, unread",
    1602674: "a run ended with an error because of what it alone had seen",
    1641329: "a second attempt stored a row again at its sequence after files were put back",
    1647298: "a driver taken for dead committed again after files were put back (simulator)",
    1622237: "rows expired, and the stream was made anew before the look that tells",
}


# The same with clusters.
FOUND_OF_CLUSTERS = {
    1351134: "a server of a cluster was given older files, and nobody else knew better (simulator)",
    1360181: "a leader was asked who listens to an inbox (simulator)",
    1362433: "the same",
    1442579: "an older state was told for two seconds, the last answer being late",
    1460291: "a leader told of the stream before it was made again: nothing was read, or reported",
    1602743: "a row was refused for the moment and taken after a later one of its key (simulator)",
    1521514: "a leader did not list the chunks that a killed attempt had left",
    1400133: "a leader told twice within one look that its stream had less than was read",
}


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_the_promises_hold_and_everything_comes_to_its_end(
    simulation: ModuleType, first: int
) -> None:
    for seed in range(first, first + BLOCK):
        _play(simulation.Simulation(seed))


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"{seed}: {FOUND[seed]}")
def test_seeds_that_once_failed(simulation: ModuleType, seed: int) -> None:
    program = simulation.choose(seed, has_kinds=False)
    _play(simulation.Simulation(seed, program))


@pytest.mark.parametrize("seed", FOUND_OF_KINDS, ids=lambda seed: f"{seed}: {FOUND_OF_KINDS[seed]}")
def test_seeds_of_the_later_kinds_that_once_failed(simulation: ModuleType, seed: int) -> None:
    program = simulation.choose(seed, has_modes=False, has_names=False)
    _play(simulation.Simulation(seed, program))


@pytest.mark.parametrize("seed", FOUND_OF_MODES, ids=lambda seed: f"{seed}: {FOUND_OF_MODES[seed]}")
def test_seeds_with_modes_that_once_failed(simulation: ModuleType, seed: int) -> None:
    _play(
        simulation.Simulation(seed, simulation.choose(seed, has_forgetting=False, has_names=False))
    )


@pytest.mark.parametrize("seed", FOUND_OF_RETUNING, ids=lambda seed: f"{seed}")
def test_seeds_with_other_options_that_once_failed(simulation: ModuleType, seed: int) -> None:
    program = simulation.choose(seed, has_older=False, has_names=False)
    _play(simulation.Simulation(seed, program))


@pytest.mark.parametrize("seed", FOUND_OF_OLDER, ids=lambda seed: f"{seed}")
def test_seeds_with_older_files_that_once_failed(simulation: ModuleType, seed: int) -> None:
    program = simulation.choose(seed, has_rivals=False, has_names=False)
    _play(simulation.Simulation(seed, program))


@pytest.mark.parametrize("seed", FOUND_OF_RIVALS, ids=lambda seed: f"{seed}")
def test_seeds_with_rivals_that_once_failed(simulation: ModuleType, seed: int) -> None:
    _play(simulation.Simulation(seed, simulation.choose(seed, has_names=False)))


@pytest.mark.parametrize("seed", FOUND_SINCE, ids=lambda seed: f"{seed}")
def test_seeds_of_all_kinds_that_once_failed(simulation: ModuleType, seed: int) -> None:
    _play(simulation.Simulation(seed, simulation.choose(seed, has_clusters=False)))


@pytest.mark.parametrize("seed", FOUND_OF_CLUSTERS, ids=lambda seed: f"{seed}")
def test_seeds_of_clusters_that_once_failed(simulation: ModuleType, seed: int) -> None:
    _play(simulation.Simulation(seed, simulation.choose(seed, has_crowds=False)))


def _play(played: Any) -> None:
    try:
        played.run()
    except Exception as error:
        story = "\n".join(played.world.trace[-40:])
        raise AssertionError(f"{played.program}: {error}\n{story}") from error


def test_a_seed_says_the_same_whatever_the_order_of_sets() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-m", "tests.connector_sim", "--seed", "13", "--trace"],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert "seed 13: " in said[0]


def test_two_seeds_say_different_things(simulation: ModuleType) -> None:
    assert simulation.Simulation(3).run() != simulation.Simulation(4).run()
