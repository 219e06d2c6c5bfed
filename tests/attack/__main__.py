"""Attacks of many seeds; what a server does not stand is told with its seed.

    python -m tests.attack --minutes 60
    python -m tests.attack --seed 17 --seeds 1

Most of the time goes to servers in this process, of which every fifth trusts an operator, some to
a process with sockets, and some to that process beside the genuine one: where one refuses what the
other takes, or for another reason, is listed at the end, with how often and a seed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from jetstream_server import API_LEVEL
from jetstream_server.core.provenance import is_own_subject
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import SEQUENCE_MAX
from jetstream_server.jetstream.required_level import HEADER as LEVEL_HEADER
from jetstream_server.protocol import headers

from tests.attack.acts import Act, Ears, FoundError, Publish, fast_batch_of, is_of_fast_batch
from tests.attack.configured_users import ConfiguredUsers
from tests.attack.grammar import COMPARED, FEATURES, OPERATED, sequence
from tests.attack.operated_users import of_seed
from tests.attack.process import (
    PATIENCE_SECONDS,
    PONG_SECONDS_MAX,
    Process,
    attack_by_sockets,
    resident_bytes,
    running,
)
from tests.attack.world import Admission, attack

# Of a hundred seeds: by sockets, and of these beside the genuine server.
BY_SOCKETS, BESIDE = 4, 2
# Of so many seeds one is of an operator, unless it is played by sockets.
OPERATED_EACH = 5
# A difference counts if it shows each time, also where slow answers are waited for longer.
PATIENCES_SECONDS = (PATIENCE_SECONDS, 4 * PATIENCE_SECONDS, 16 * PATIENCE_SECONDS)
_BLOCK_READ_AS_BODY_MAX = 2
_PURGE_FAILED = errors.STREAM_PURGE_FAILED("").err_code
_PURGED_UP_TO = re.compile(rb'"seq": *(\d{1,20})')
_LEVEL_REFUSED = errors.REQUIRED_API_LEVEL().err_code
_TIME_AND_PENDING = re.compile(rb"\.\d{19}\.\d+$")
Answered = tuple[str, int | None, int | None]


class Attack:
    """Many seeds, and what came of them.

    Attributes:
        found: how often something was found, by its last line.
        differences: how often the servers answered differently: to what, and how; an example.
        passing: seeds whose difference did not show again.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._ours: Process | None = None
        self.inputs, self.slowest, self.late = 0, 0.0, 0.0
        self.found: Counter[str] = Counter()
        self.differences: Counter[Answered] = Counter()
        self.passing: list[int] = []
        self._examples: dict[Answered, int] = {}

    def run(self, seed: int) -> None:
        """Attack with one seed; say what was found."""
        kind = seed % 100
        try:
            if kind < BESIDE and shutil.which("nats-server"):
                self._beside(seed)
            elif kind < BY_SOCKETS:
                self._by_sockets(sequence(seed))
            elif seed % OPERATED_EACH == OPERATED_EACH - 1:
                self._inside(seed, sequence(seed, OPERATED), of_seed(seed))
            else:
                self._inside(seed, sequence(seed))
        except FoundError as error:
            cause = str(error).strip().splitlines()[-1][:200]
            self.found[cause] += 1
            told = str(error) if self.found[cause] == 1 else f"again: {cause}"
            print(f"seed {seed}: {told}\n", flush=True)
            self._stack.close()
            self._ours = None

    def _process(self) -> Process:
        if self._ours is None:
            self._ours = self._stack.enter_context(running())
        return self._ours

    def _inside(
        self, seed: int, acts: list[Act], admitted: Callable[[], Admission] = ConfiguredUsers
    ) -> None:
        self.inputs += len(acts)
        self.slowest = max(self.slowest, attack(self._folder, seed, acts, admitted))

    def _by_sockets(self, acts: list[Act]) -> None:
        self.inputs += len(acts)
        self.late = max(self.late, attack_by_sockets(self._process(), acts))

    def _beside(self, seed: int) -> None:
        acts = comparable(sequence(seed, {feature: FEATURES[feature] for feature in COMPARED}))
        found = [self._difference(acts, PATIENCES_SECONDS[0])]
        for patience_seconds in PATIENCES_SECONDS[1:]:
            if found[0] is not None and found[-1] == found[0]:
                found.append(self._difference(acts, patience_seconds))
        if found[0] is None:
            return
        if found[-1] != found[0]:
            self.passing.append(seed)
            return
        self.differences[found[0]] += 1
        self._examples.setdefault(found[0], seed)

    def _difference(self, acts: list[Act], patience_seconds: float) -> Answered | None:
        """Return what two servers that are just started answer differently first."""
        with (
            running(patience_seconds=patience_seconds) as ours,
            running(["nats-server"], patience_seconds) as theirs,
        ):
            for server in (ours, theirs):
                for act in acts:
                    server.do(act)
                server.rest()
                server.check()
            self.inputs += len(acts)
            found = first_difference(acts, ours.ears, theirs.ears)
            if ours.slowest[0] > PONG_SECONDS_MAX:
                attack_by_sockets(ours, acts)
            return found

    def report(self) -> None:
        """Say where the servers differ."""
        for answered, count in self.differences.most_common():
            what, ours, theirs = answered
            said = [f"error {each}" if each else "success" for each in (ours, theirs)]
            said = [
                "silence" if each is None else text
                for each, text in zip((ours, theirs), said, strict=True)
            ]
            example = self._examples[answered]
            print(f"{count:5} {what}: ours {said[0]}, genuine {said[1]}; seed {example}")
        if self.passing:
            print(f"{len(self.passing):5} did not show again: seeds {self.passing}")


def comparable(acts: list[Act]) -> list[Act]:
    """Return what both servers may be told: where only the server speaks, the bundled one lets no
    answer go, so that what comes after it would differ."""
    return [
        act
        for act in acts
        if not (
            isinstance(act, Publish) and isinstance(act.reply, bytes) and is_own_subject(act.reply)
        )
    ]


def first_difference(acts: list[Act], ours: Ears, theirs: Ears) -> Answered | None:
    """Return to what the first answers are that differ, and how; None if none do, or if they are
    known to. What comes after them may come of them."""
    for act in acts:
        if not isinstance(act, Publish) or not isinstance(act.reply, bytes):
            continue
        if not is_same_question(act.reply, ours, theirs):
            continue
        answers = ours.errors.get(act.reply), theirs.errors.get(act.reply)
        if answers[0] != answers[1]:
            return None if is_on_purpose(act, ours, theirs) else (_kind(act), *answers)
    return None


def is_same_question(reply: bytes, ours: Ears, theirs: Ears) -> bool:
    """Tell whether both were asked the same: what is said of what was heard depends on what came
    first. When a message was stored, and how many wait behind it, stands in acks and changes
    nothing."""
    said = [
        [_TIME_AND_PENDING.sub(b"", each) for each in ears.meant.get(reply, ())]
        for ears in (ours, theirs)
    ]
    return said[0] == said[1]


def is_on_purpose(act: Publish, ours: Ears, theirs: Ears) -> bool:
    """Tell whether the servers are known to differ here (`tests/parity/deviations.md`): on streams
    that meet an origin again, on templates, on what no request begins like, on the level of
    their API, on fast batches after a wrong last message id or a refused first message, on when
    others beside them are acknowledged, on header blocks that are too short to hold anything, and
    on purges up to sequences that no stream has."""
    reply, subject = act.reply, act.subject
    if not isinstance(reply, bytes) or not isinstance(subject, bytes):
        return False
    level = headers.get(act.headers, LEVEL_HEADER)
    if level == b"%d" % (API_LEVEL + 1) and ours.errors.get(reply) == _LEVEL_REFUSED:
        return True
    if reply in theirs.circles - ours.circles or b".STREAM.TEMPLATE." in subject:
        return True
    if is_of_fast_batch(reply):
        if fast_batch_of(reply) in theirs.stalled:
            return True
        answers = {ours.errors.get(reply), theirs.errors.get(reply)}
        if theirs.stalled and answers == {None, 0}:
            return True
    if not subject.startswith(b"$JS.API."):
        return False
    if ours.errors.get(reply) == _PURGE_FAILED and isinstance(act.payload, bytes):
        found = _PURGED_UP_TO.search(act.payload)
        return found is not None and int(found[1]) > SEQUENCE_MAX
    if 0 < len(act.headers) <= _BLOCK_READ_AS_BODY_MAX:
        return True
    return reply not in theirs.errors and reply in ours.unheard


def _kind(act: Publish) -> str:
    """Return what sort of input it is."""
    if not isinstance(act.subject, bytes):
        return act.subject.kind
    words = act.subject.decode(errors="replace").split(".")
    if words[:2] != ["$JS", "API"]:
        return "message with headers" if act.headers else "message"
    return ".".join([word for word in words[2:] if word.isupper() and not word[-1:].isdigit()][:4])


def main() -> int:
    """Run; return the number of seeds that found something."""
    parser = argparse.ArgumentParser(prog="tests.attack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=0, help="so many, instead of minutes")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--beside", action="store_true", help="only beside the genuine server")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    place = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    seed, seeds, step = options.seed, 0, 1
    if options.beside:
        seed, step = seed * 100, 100
    with tempfile.TemporaryDirectory(dir=place) as folder, ExitStack() as stack:
        attack = Attack(Path(folder), stack)
        while seeds < options.seeds if options.seeds else time.monotonic() < until:
            attack.run(seed)
            seed, seeds = seed + step, seeds + 1
            if seeds % 1000 == 0:
                print(f"seed {seed}: {resident_bytes() >> 20} MiB", flush=True)
    attack.report()
    bad = attack.found.total()
    print(
        f"{seeds} seeds from {seed - seeds * step}, {attack.inputs} inputs, {bad} bad;"
        f" the longest piece of work {attack.slowest:.3f} s,"
        f" the longest wait for a PONG by sockets {attack.late:.3f} s"
    )
    return min(bad, 100)


if __name__ == "__main__":
    sys.exit(main())
