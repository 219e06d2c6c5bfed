"""A run of operations, and the shortest one that shows the same difference."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from jetstream_server.store import memory, sequence_order
from jetstream_server.store.blocks import block_pruning, subjects

from tests.fuzz.store.operations import Operation, operations_of, shape_of
from tests.fuzz.store.pair import Pair
from tests.sim.small_bounds import small_structures

# Bounds of these two stores alone, beside those of `small_bounds`.
_BOUNDS = {
    (memory, "_FEW"): [1, 3],
    (memory, "_SINGLY"): [1, 2],
    (memory, "_ONE_BY_ONE"): [1, 4],
    (memory, "_SHARED_MESSAGES_MIN"): [1, 3],
    (memory, "_WALKED_FOR_ONE"): [1, 4],
    (memory, "_SEQUENCES_MAX"): [1, 2, 5],
    (memory, "_PART_MAX"): [1, 2, 4],
    (sequence_order, "DEAD_MIN"): [1, 5, 20],
    (sequence_order, "_SWEPT_FOR_ONE"): [2, 16],
    (block_pruning, "FEW_MESSAGES"): [1, 2, 5],
    (subjects, "RECENT_MAX"): [2, 5],
}


class Failure(NamedTuple):
    """How a run ended.

    Attributes:
        done: how many operations were carried out before.
        kind: by which another failure is recognised as the same.
        told: what happened.
    """

    done: int
    kind: str
    told: str


def run(seed: int, operations: list[Operation]) -> Failure | None:
    """Do operations to the stores of a seed; return how that failed, None if it did not."""
    shape = shape_of(seed)
    if not shape.is_small:
        return _played(seed, operations)
    with small_structures(seed), _small_bounds(seed):
        return _played(seed, operations)


def _played(seed: int, operations: list[Operation]) -> Failure | None:
    done = 0
    try:
        pair = Pair(seed, shape_of(seed))
        for operation in operations:
            pair.do(operation)
            done += 1
        pair.finish()
    except Exception as error:  # whatever it is, it is found
        places = traceback.extract_tb(error.__traceback__)
        kind = f"{type(error).__name__} in {[each.name for each in places[-2:]]}"
        # Without numbers and names, which are others when there are fewer operations.
        kind += "".join(re.findall("[a-z ]+", str(error).split("\n")[0]))
        told = [f"{each.filename}:{each.lineno} {each.name}" for each in places[-6:]]
        return Failure(done, kind, f"{type(error).__name__}: {error}\n    " + "\n    ".join(told))
    return None


@contextmanager
def _small_bounds(seed: int) -> Iterator[None]:
    before = {bound: getattr(*bound) for bound in _BOUNDS}
    try:
        for (module, name), choice in _BOUNDS.items():
            setattr(module, name, Random(f"{seed} {module} {name}").choice(choice))
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)


def shortest(
    operations: list[Operation], fails: Callable[[list[Operation]], Failure | None], kind: str
) -> list[Operation]:
    """Return operations that fail in the same way, none of which can be left out."""

    def is_same(some: list[Operation]) -> bool:
        failure = fails(some)
        return failure is not None and failure.kind == kind

    size = max(len(operations) // 2, 1)
    while True:
        before = len(operations)
        at = len(operations) - size
        while at > -size:
            low = max(at, 0)
            fewer = operations[:low] + operations[at + size :]
            if is_same(fewer):
                operations = fewer
            at -= size
        if size > 1:
            size //= 2
        elif len(operations) == before:
            return _plainer(operations, is_same)


def _plainer(
    operations: list[Operation], is_same: Callable[[list[Operation]], bool]
) -> list[Operation]:
    """Leave out questions, messages and places that it does not take."""
    for at in range(len(operations)):
        for other in _simpler(operations[at]):
            tried = [*operations[:at], other, *operations[at + 1 :]]
            if is_same(tried):
                operations = tried
        for name, value in list(operations[at].options.items()):
            if not isinstance(value, list):
                continue
            for number in range(len(value) - 1, -1, -1):
                current = operations[at]
                fewer = current.options[name][:number] + current.options[name][number + 1 :]
                other = current._replace(options=current.options | {name: fewer})
                tried = [*operations[:at], other, *operations[at + 1 :]]
                if fewer and is_same(tried):
                    operations = tried
    return operations


def _simpler(operation: Operation) -> list[Operation]:
    return [operation._replace(questions=0)] if operation.questions else []


def told(seed: int, count: int) -> str:
    """Run a seed; return what it found with the fewest operations that show it, "" for nothing."""
    operations = operations_of(seed, count)
    failure = run(seed, operations)
    if failure is None:
        return ""
    kind = failure.kind
    few = shortest(operations[: failure.done + 1], lambda some: run(seed, some), kind)
    last = run(seed, few) or failure
    lines = [f"seed {seed}, {shape_of(seed)}"]
    lines += [f"  {number}. {operation}" for number, operation in enumerate(few, 1)]
    return "\n".join([*lines, f"  then: {last.told}"])
