"""The process that loads run in: warm, alone in its interpreter, and pinned if asked for.

A load that hangs is ended with its process; the next one gets a new process.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from benchmarks.bench import Load, LoadResult, Settings
from benchmarks.servers import Target

_STARTUP_S = 30.0
_FAILURE_CHARS = 600


class LoadFailedError(Exception):
    """A load raised, died or did not end; the text is its own."""


class LoadProcess:
    """Runs one load at a time.

    Attributes:
        cpu_s: CPU seconds that the last load took.
    """

    def __init__(self, pinned_cpu: int | None = None, timeout_s: float = 120.0) -> None:
        self.cpu_s = 0.0
        self._pinned_cpu = pinned_cpu
        self._timeout_s = timeout_s
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._pipe, child = self._context.Pipe()
        self._process = self._context.Process(
            target=_serve_loads, args=(child, self._pinned_cpu), daemon=False
        )
        self._process.start()
        child.close()

    def run(self, load: Load, target: Target, settings: Settings) -> LoadResult:
        """Run a load to its end.

        Raises:
            LoadFailedError: it raised, died, or did not end in time.
        """
        self._pipe.send((load, target, settings))
        try:
            if not self._pipe.poll(self._timeout_s + _STARTUP_S):
                raise LoadFailedError(f"it did not end within {self._timeout_s:g} s")
            answer, self.cpu_s = self._pipe.recv()
        except (EOFError, LoadFailedError) as error:
            self.close()
            self._start()
            raise LoadFailedError(str(error) or "the load process died") from None
        if isinstance(answer, str):
            raise LoadFailedError(answer)
        assert isinstance(answer, LoadResult)
        return answer

    def close(self) -> None:
        self._pipe.close()
        self._process.join(10 if self._process.is_alive() else 0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _serve_loads(pipe: Connection, pinned_cpu: int | None) -> None:
    if pinned_cpu is not None:
        os.sched_setaffinity(0, {pinned_cpu})
    while True:
        try:
            load, target, settings = pipe.recv()
        except (EOFError, OSError):
            return
        before = _cpu_s()
        answer: LoadResult | str
        try:
            answer = load(target, settings)
        except Exception as error:
            lines = "".join(traceback.format_exception_only(error)).split("\n")
            answer = "; ".join(line.strip() for line in lines if line.strip())[-_FAILURE_CHARS:]
        pipe.send((answer, _cpu_s() - before))


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
