"""The threads in which passwords are compared, so that the event loop goes on.

Addresses take turns: a client that tries a hundred passwords waits for its own, while another's
comes next. Of one address the newest comes first: whoever waits for those before it would be too
late, as its time to sign in is over sooner than so many are compared. One core is left to the loop.
Only so many may wait, for each address and in all. Whoever comes on top of that takes the place of
the one of its address that has waited longest, which is not answered: its connection ends with the
sign-in timeout, as if it had waited in line that long.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from jetstream_server.node.auth.password_check import PasswordQuestion

WAITING_MAX = 1024
WAITING_OF_ADDRESS_MAX = 64
_THREADS_MAX = 4

Answered = Callable[[bool], None]


class PasswordThreads:
    """Compares passwords in threads of its own. A `PasswordChecker`.

    Args:
        wake: called after each answer, on the loop that is running now.
        threads: how many, started with the first question; by default one less than there are
            cores.
    """

    def __init__(self, wake: Callable[[], None], threads: int = 0) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = wake
        self._threads = threads or min(max((os.cpu_count() or 1) - 1, 1), _THREADS_MAX)
        self._tasks: SimpleQueue[tuple[PasswordQuestion, Answered] | None] = SimpleQueue()
        self._begun = 0
        self._busy = 0
        self._count = 0
        # The address whose turn is next comes first.
        self._waiting: OrderedDict[str, dict[Answered, PasswordQuestion]] = OrderedDict()

    def ask(self, question: PasswordQuestion, host: str, answered: Answered) -> None:
        """Compare when it is the address's turn, and nothing newer of it waits."""
        mine = self._waiting.setdefault(host, {})
        if mine and (len(mine) >= WAITING_OF_ADDRESS_MAX or self._count >= WAITING_MAX):
            del mine[next(iter(mine))]
            self._count -= 1
        if self._count < WAITING_MAX:
            mine[answered] = question
            self._count += 1
        elif not mine:
            del self._waiting[host]
        self._begin()

    def forget(self, answered: Answered) -> None:
        """Take a question out of the line."""
        for host, questions in self._waiting.items():
            if questions.pop(answered, None) is not None:
                self._count -= 1
                if not questions:
                    del self._waiting[host]
                return

    def stop(self) -> None:
        """End the threads once they have finished their comparisons."""
        self._waiting.clear()
        self._count = 0
        for _ in range(self._begun):
            self._tasks.put(None)

    def _begin(self) -> None:
        """Give the next questions to threads that have nothing to do."""
        while self._waiting and self._busy < self._threads:
            host, questions = self._waiting.popitem(last=False)
            answered, question = questions.popitem()
            self._count -= 1
            if questions:
                self._waiting[host] = questions
            self._busy += 1
            if self._begun < self._busy:
                self._begun += 1
                # A daemon: a server that ends does not wait for it.
                Thread(target=self._serve, name="password", daemon=True).start()
            self._tasks.put((question, answered))

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            question, answered = task
            is_right = False
            with contextlib.suppress(Exception):  # what cannot be compared is not right
                is_right = question.answer()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
                self._loop.call_soon_threadsafe(self._tell, answered, is_right)
            del task, question, answered

    def _tell(self, answered: Answered, is_right: bool) -> None:
        self._busy -= 1
        self._begin()
        answered(is_right)
        self._wake()
