"""One file of a store whose server was killed, or stopped, is damaged: nothing that was answered
is missing without a word, and no sequence is given twice. The long run: `python -m tests.damage`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from jetstream_server.store.blocks.high_water import HighWaterLog
from jetstream_server.store.disk.journal import Journal

from tests.damage.__main__ import attempt
from tests.damage.killed import SilentError

MEMORY = Path("/dev/shm")
# What was found once: a seed each, and what it was.
FOUND = {
    6: "a config in the journal, and the key of its stream damaged: it escaped at the start",
    103: "a flipped bit in the last flush looked like a torn tail: messages were gone",
    106: "the last block cut short: a sequence was given again",
    107: "the only block garbled: sequences began at 1 again",
    1225: "the config of a stream without messages: it was gone without a word, and its consumer",
    1156: "(the look's) of the same stream, without consumers, nothing is left to be told of",
}


@pytest.fixture
def place(tmp_path):
    """Return where stores are: in memory where there is room."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as made:
        yield Path(made)


@pytest.mark.parametrize("seed", FOUND)
def test_nothing_is_missing_without_a_word(seed, place):
    attempt(place, seed)


@pytest.mark.parametrize("seed", range(1, 4))
def test_nothing_of_a_store_that_was_closed_is_missing_without_a_word(seed, place):
    attempt(place, seed, is_stopped=True)


@pytest.mark.parametrize(
    ("owner", "name", "is_stopped", "seeds"),
    [
        (HighWaterLog, "confirm", False, (103, 106)),
        (Journal, "_note_reached", False, (3,)),
        (HighWaterLog, "_save", True, (1,)),
    ],
)
def test_what_goes_without_a_word_is_found(place, monkeypatch, owner, name, is_stopped, seeds):
    """Without the notes of what was durable, what was in the last flush looks torn, and what is
    gone looks as if it had never been."""
    monkeypatch.setattr(owner, name, lambda *given, **named: None)
    for seed in seeds:
        with pytest.raises(SilentError):
            attempt(place / str(seed), seed, is_stopped=is_stopped)
