"""How far something is, and that it stops."""

from __future__ import annotations

import pytest
from jetstream_console.asking.errors import AskingError
from jetstream_console.asking.progress import TransferProgress


async def pieces():
    for each in (b"a", b"b", b"c"):
        yield each


def test_it_moves_ends_once_and_stops_before_the_next_piece(run):
    async def work():
        progress = TransferProgress(4)
        seen = []
        with pytest.raises(AskingError, match="stopped"):
            async for piece in progress.until_stopped(pieces()):
                seen.append(piece)
                progress.move(len(seen))
                if len(seen) == 2:
                    progress.stop()
        assert (seen, progress.share) == ([b"a", b"b"], 0.5)
        progress.end("first")
        progress.end("second")
        assert progress.words == "first" and progress.is_over

    run(work())


def test_nothing_is_done_when_it_is_over():
    progress = TransferProgress(0)
    assert progress.share == 0
    progress.end("")
    assert progress.share == 1
