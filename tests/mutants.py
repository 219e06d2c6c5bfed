"""`python -m tests.mutants FILE...`: plant small faults in sources, see which of them tests miss.

Each mutant is one change in a copy of the package: what the operators of `cosmic-ray` make, and
statements that are left out. The tests nearest to the file, and those of `--tests`, run on it in a
process of their own. A mutant that they do not notice survives; whether it is a fault at all is for
the reader to say: many change nothing but speed, or what cannot happen.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import cryptography.x509
import hypothesis
import numpy
import orjson
import parso.python.tree
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.operators.provider import OperatorProvider

# Imported before the tests are, once for all of them.
PREPARED = (cryptography.x509, hypothesis, numpy, orjson)

ROOT = Path(__file__).parents[1]
# Where sources are, and their tests.
TREES = {
    ROOT / "server/jetstream_server": ROOT / "tests/server",
    ROOT / "server/jetstream_console": ROOT / "tests/console",
    ROOT / "jetstream_spark": ROOT / "tests/connector",
}
# Tests that look closely at a file, beside those that mirror it.
STREAM_TESTS = ["tests/server/jetstream/test_stream.py", "tests/server/jetstream/streams"]
ALSO = {
    "server/jetstream_server/jetstream/consumers/ack.py": ["tests/models/test_consumer_model.py"],
    "server/jetstream_server/jetstream/consumers/progress/progress.py": [
        "tests/server/jetstream/consumers"
    ],
    "server/jetstream_server/jetstream/streams/contents.py": STREAM_TESTS,
    "server/jetstream_server/jetstream/streams/storing/admission.py": STREAM_TESTS,
    "server/jetstream_server/store/disk/flush.py": ["tests/server/store/disk/test_commit.py"],
    "jetstream_spark/fetch/range_fetch.py": ["tests/connector/fetch/test_fetch.py"],
    "jetstream_spark/sink/covered_rows.py": ["tests/connector_sim/test_followed_attempt.py"],
    "jetstream_spark/sink/ledger.py": ["tests/connector/sink/test_claim.py"],
    "jetstream_spark/sink/recovery.py": [
        f"tests/connector/sink/test_{name}.py" for name in ("claim", "inquiry", "publisher")
    ],
    "jetstream_spark/source/planner.py": ["tests/models/test_planner_model.py"],
}
STORE = ROOT / "server/jetstream_server/store"
OPERATORS = (
    "AddNot",
    "NumberReplacer",
    "ReplaceAndWithOr",
    "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_Sub_Add",
    "ReplaceBreakWithContinue",
    "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceContinueWithBreak",
    "ReplaceFalseWithTrue",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    "ZeroIterationForLoop",
)
# Tests that hang notice a mutant too; but a busy machine is no hanging test.
BEFORE_SECONDS, SECONDS_MIN, SLOWER = 600, 60, 5


class LeaveOut:
    """An operator: a statement that only has an effect is not there."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Yield where a node can be changed."""
        if node.type == "simple_stmt" and _has_effect(node.children[0]):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Return the node without the statement."""
        old = node.children[0]
        prefix = old.get_first_leaf().prefix
        node.children[0] = parso.python.tree.Keyword("pass", old.start_pos, prefix)
        return node


def _has_effect(node: Any) -> bool:
    """Tell whether a statement is a call, or changes something that was there before."""
    if node.type != "expr_stmt":
        return bool(node.type == "atom_expr")
    target, operation = node.children[0], node.children[1]
    return target.type in ("power", "atom_expr") or getattr(operation, "value", "=") != "="


def mutants(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line of every mutant, and the whole source with it."""
    provider = OperatorProvider()
    for operator in [provider[name]() for name in OPERATORS] + [LeaveOut()]:
        places = [
            start[0]
            for node in ast_nodes(get_ast(source))
            for start, _ in operator.mutation_positions(node)
        ]
        for occurrence, line in enumerate(places):
            mutated = MutationVisitor.mutate_code(source, operator, occurrence)
            if mutated is not None and _compiles(mutated):
                yield line, mutated


def _compiles(source: str) -> bool:
    with suppress(SyntaxError):
        compile(source, "mutant", "exec")
        return True
    return False


def nearest(path: Path) -> Path:
    """Return the tests of a source file."""
    for sources, tests in TREES.items():
        if path.is_relative_to(sources):
            return tests / path.relative_to(sources).with_name(f"test_{path.name}")
    raise SystemExit(f"{path} is not in one of {[*map(str, TREES)]}")


def tests_of(path: Path) -> list[str]:
    """Return the tests that look at a source file."""
    also = list(ALSO.get(str(path.relative_to(ROOT)), ()))
    if path.is_relative_to(STORE):
        also.append("tests/server/store/test_file.py")
    return [str(nearest(path)), *also]


def is_noticed(copy: Path, tests: list[str], seconds: float) -> bool:
    """Run tests on a copy of the package; tell whether one fails, or they take too long."""
    child = os.fork()
    if not child:
        os.setsid()
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(copy))
        os.environ["PYTHONPATH"] = f"{copy}:{ROOT}"
        os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="sources to plant faults in")
    parser.add_argument("--tests", nargs="*", default=[], help="beside those of each file")
    parser.add_argument("--most", type=int, default=10, help="mutants of each file (10); 0 for all")
    parser.add_argument("--seed", type=int, default=1, help="which of them (1)")
    options = parser.parse_args()
    tried = survived = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in [path.resolve() for path in options.files]:
            sources = next(each for each in TREES if path.is_relative_to(each))
            copy = Path(folder) / sources.name
            if not copy.exists():
                shutil.copytree(sources, copy, ignore=shutil.ignore_patterns("__pycache__"))
            tests = [*tests_of(path), *options.tests]
            begun = time.monotonic()
            if is_noticed(Path(folder), tests, BEFORE_SECONDS):
                raise SystemExit(f"the tests fail without a mutant: {' '.join(tests)}")
            seconds = max(SECONDS_MIN, SLOWER * (time.monotonic() - begun))
            source, planted = path.read_text(), copy / path.relative_to(sources)
            found = list(mutants(source))
            Random(options.seed).shuffle(found)
            for line, mutated in sorted(found[: options.most or None]):
                planted.write_text(mutated)
                tried += 1
                if not is_noticed(Path(folder), tests, seconds):
                    survived += 1
                    print(f"\n{path.relative_to(ROOT)}:{line} survives")
                    print(_difference(source, mutated), flush=True)
            planted.write_text(source)
    print(f"\n{tried} mutants, {tried - survived} noticed, {survived} survived")
    return 0


def _difference(source: str, mutated: str) -> str:
    lines = difflib.unified_diff(source.splitlines(), mutated.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


if __name__ == "__main__":
    sys.exit(main())
