"""Scenarios played on pairs of servers, several at once, and what came of each.

Scenarios are independent, and most of their time is spent waiting for timers of the servers. So
several are played at once, each on a pair of servers that it has for itself while it runs.

The genuine server does much behind its answers: a pull that was asked for before a message was
published may see the message or not, an acknowledgement may be counted when it is answered or a
moment later. Where it has more than one answer, one play does not show them all. So when the
bundled server's transcript is not the genuine server's, the genuine server alone plays again, a
few times; what the bundled server did must be among what the genuine one did. The bundled server
plays once: it has no second chance. Which scenarios were settled so is printed at the end.
"""

from __future__ import annotations

import queue
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from tests.parity.player import Play
from tests.parity.scenario import ALWAYS_SYNCED, Scenario
from tests.parity.schemas import Document
from tests.parity.server_process import ServerProcess, bundled_command
from tests.parity.transcript import difference

LANES = 8
# How often the genuine server is asked for another of its answers.
GENUINE_PLAYS = 4


@dataclass
class Side:
    """What one scenario looked like on one server."""

    transcript: list[str]
    events: list[str]
    documents: list[Document]


@dataclass
class Outcome:
    """What one scenario looked like on either server, and how often the genuine one played it."""

    ours: Side
    theirs: Side
    plays: int = 1

    @property
    def difference(self) -> str:
        """Where the transcripts, or else the events in any order, part; nothing if nowhere."""
        return difference(self.ours.transcript, self.theirs.transcript) or difference(
            self.ours.events, self.theirs.events
        )


class Lanes:
    """Pairs of servers, each playing one scenario at a time.

    Every scenario that is going to be asked for is begun at once; a test only waits for its own.
    Scenarios of one configuration are played by one pair, which is started anew but once for all.
    """

    def __init__(self, genuine: list[str], count: int) -> None:
        self._pairs: queue.SimpleQueue[tuple[ServerProcess, ServerProcess]] = queue.SimpleQueue()
        self._all = [
            (ServerProcess(bundled_command()), ServerProcess(genuine)) for _ in range(count)
        ]
        self._pool = ThreadPoolExecutor(count)
        self._sides = ThreadPoolExecutor(2 * count)
        self._outcomes: dict[str, Future[Outcome]] = {}
        self._has_ended = False

    def start(self) -> None:
        """Start every server."""
        list(self._sides.map(ServerProcess.start, [one for pair in self._all for one in pair]))
        for pair in self._all:
            self._pairs.put(pair)

    def begin(self, scenarios: list[Scenario]) -> None:
        """Play scenarios when pairs of servers are free, those with configurations first."""
        groups: dict[str, list[Scenario]] = {}
        for scenario in scenarios:
            shared = scenario.config in ("", ALWAYS_SYNCED)
            groups.setdefault(scenario.title if shared else scenario.config, []).append(scenario)
        for group in sorted(groups.values(), key=len, reverse=True):
            for scenario in group:
                self._outcomes[scenario.title] = Future()
            self._pool.submit(self._play_all, group)

    def outcome(self, scenario: Scenario) -> Outcome:
        """Return what a scenario looked like, begun before or not."""
        if scenario.title not in self._outcomes:
            self.begin([scenario])
        return self._outcomes[scenario.title].result()

    def _play(self, pair: tuple[ServerProcess, ServerProcess], scenario: Scenario) -> Outcome:
        sides = [self._sides.submit(_play, server, scenario) for server in pair]
        wait(sides)  # a server must not be given back while it plays
        first = outcome = Outcome(*(side.result() for side in sides))
        while outcome.difference and not scenario.deviates and outcome.plays < GENUINE_PLAYS:
            outcome = Outcome(first.ours, _play(pair[1], scenario), outcome.plays + 1)
        return first if outcome.difference else outcome

    def _play_all(self, scenarios: list[Scenario]) -> None:
        pair = self._pairs.get()
        for scenario in scenarios:
            if self._has_ended:
                break
            try:
                outcome = self._play(pair, scenario)
            except Exception as error:  # it belongs to the test that waits for it
                self._outcomes[scenario.title].set_exception(error)
            else:
                self._outcomes[scenario.title].set_result(outcome)
        self._pairs.put(pair)

    def end(self) -> None:
        """Stop every server."""
        self._has_ended = True
        self._pool.shutdown(cancel_futures=True)
        self._sides.shutdown()
        for pair in self._all:
            for server in pair:
                server.end()


def _play(server: ServerProcess, scenario: Scenario) -> Side:
    server.configure(scenario.config_text)
    server.revive()
    play = Play(server)
    return Side(play.run(scenario), play.events(), play.documents())
