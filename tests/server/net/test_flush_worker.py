"""The thread that waits for the disk."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import weakref
from pathlib import Path

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.net.flush_worker import FlushWorker


async def answered(answers, count):
    async with asyncio.timeout(60):
        while len(answers) < count:
            await asyncio.sleep(0)


def test_work_is_done_elsewhere_in_order_and_answered_on_the_loop():
    async def main():
        threads, answers = [], []
        worker = FlushWorker(asyncio.get_running_loop())
        failure = (object(), StoreError("no"))

        def work(number):
            threads.append(threading.get_ident())
            return [failure] * number

        def done(failures, error):
            answers.append((len(failures), error, threading.get_ident()))

        for number in range(3):
            worker.run(lambda number=number: work(number), done)  # type: ignore[misc]
        await answered(answers, 3)
        here = threading.get_ident()
        assert answers == [(0, None, here), (1, None, here), (2, None, here)]
        assert len(set(threads)) == 1 and here not in threads
        worker.stop()

    asyncio.run(main())


def test_a_write_is_answered_on_the_loop_with_its_error_numbers(tmp_path):
    async def main():
        worker, answers = FlushWorker(asyncio.get_running_loop()), []
        handle = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)

        def done(*errnos):
            answers.append((*errnos, threading.get_ident()))

        worker.write(handle, b"abc", 1, 3, done)
        await answered(answers, 1)
        worker.run(list, lambda *answer: answers.append(answer))
        await answered(answers, 2)
        worker.write(-1, b"abc", 0, 3, done)
        await answered(answers, 3)
        here = threading.get_ident()
        assert answers == [(0, 0, here), ([], None), (errno.EBADF, 0, here)]
        assert os.pread(handle, 9, 0) == b"\0bc"
        worker.stop()
        os.close(handle)

    asyncio.run(main())


def test_a_write_that_is_over_when_it_stops_is_still_answered(tmp_path):
    async def main():
        worker, answers = FlushWorker(asyncio.get_running_loop()), []
        handle = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        worker.write(handle, b"abc", 0, 3, lambda *errnos: answers.append(errnos))
        worker.stop()
        assert os.pread(handle, 9, 0) == b"abc" and not answers
        await answered(answers, 1)
        assert answers == [(0, 0)]
        os.close(handle)

    asyncio.run(main())


def test_it_leaves_no_descriptor_behind():
    async def main():
        before = {each.name for each in Path("/dev/fd").iterdir()}
        worker = FlushWorker(asyncio.get_running_loop())
        worker.stop()
        assert {each.name for each in Path("/dev/fd").iterdir()} == before

    asyncio.run(main())


def test_an_error_of_ours_is_told_and_the_next_work_done():
    async def main():
        answers = []
        worker = FlushWorker(asyncio.get_running_loop())
        worker.run(lambda: 1 / 0, lambda *answer: answers.append(answer))
        worker.run(list, lambda *answer: answers.append(answer))
        await answered(answers, 2)
        assert answers[0][0] == [] and isinstance(answers[0][1], ZeroDivisionError)
        assert answers[1] == ([], None)
        worker.stop()

    asyncio.run(main())


@pytest.mark.parametrize("count", [0, 3])
def test_stopping_waits_for_what_was_given(count):
    async def main():
        gate, done = threading.Event(), []
        worker = FlushWorker(asyncio.get_running_loop())
        for _ in range(count):
            worker.run(lambda: done.append(gate.wait(60)) or [], lambda *answer: None)
        gate.set()
        worker.stop()
        assert done == [True] * count

    asyncio.run(main())


def test_a_closed_loop_is_not_told():
    gate, done, answers = threading.Event(), [], []

    async def main():
        worker = FlushWorker(asyncio.get_running_loop())
        worker.run(lambda: done.append(gate.wait(60)) or [], lambda *answer: answers.append(answer))
        return worker

    worker = asyncio.run(main())
    gate.set()
    worker.stop()
    assert (done, answers) == ([True], [])


def test_what_was_done_is_not_held_until_there_is_more_to_do():
    class Block:
        """Stands for the buffers that a flush carries."""

    async def main():
        answers = []
        worker = FlushWorker(asyncio.get_running_loop())
        block = Block()
        is_gone = threading.Event()
        weakref.finalize(block, is_gone.set)
        worker.run(lambda block=block: [], lambda *answer: answers.append(answer))  # type: ignore[misc]
        del block
        await answered(answers, 1)
        assert is_gone.wait(60)  # no other task comes
        worker.stop()

    asyncio.run(main())
