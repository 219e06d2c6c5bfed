"""What requests have promised to very many subscriptions, until it has reached them.

An ack goes to whatever reply its publisher names, and thousands may listen there. A turn takes on
no more of that than it has time to deliver. But answers wait for the disk, and while a flush is
slow, turns are many: what all of them promise leaves at once. So whoever has promised much is not
heard again before that has arrived. Nobody else waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Of the workload, each for some thirty subscriptions: what one turn delivers, and no more.
PROMISED_UNITS_MAX = 300


@dataclass(slots=True)
class _Promised:
    """What has come equally far.

    Attributes:
        units: what it is worth, all together.
        clients: who asked for it.
    """

    units: float = 0.0
    clients: set[object] = field(default_factory=set)

    def take_from(self, earlier: _Promised) -> None:
        """Take everything that has come to here."""
        if earlier.units:
            self.units += earlier.units
            self.clients |= earlier.clients
            earlier.end()

    def end(self) -> None:
        """It has all arrived, or is lost."""
        self.units = 0.0
        self.clients.clear()


class Promises:
    """What one node has promised to very many.

    Attributes:
        units: what has yet to arrive.
        made: how much was promised ever.
    """

    def __init__(self) -> None:
        self.units = self.made = 0.0
        self._fresh = _Promised()  # since the last flush began
        self._in_flush = _Promised()
        self._leaving = _Promised()  # the disk has it, and turns deliver it as they have time

    @property
    def are_many(self) -> bool:
        """Return whether so much is promised that whoever asked for it has to wait."""
        return self.units > PROMISED_UNITS_MAX

    def hold_up(self, client: object) -> bool:
        """Tell whether a client has to wait, because it is among those who asked for much."""
        return self.units > PROMISED_UNITS_MAX and any(
            client in stage.clients for stage in (self._fresh, self._in_flush, self._leaving)
        )

    def make(self, units: float) -> None:
        """Promise something that is worth so much."""
        self._fresh.units += units
        self.units += units
        self.made += units

    def made_for(self, client: object) -> None:
        """Note who has asked for what was promised last."""
        self._fresh.clients.add(client)

    def flush_began(self) -> None:
        """What was promised so far leaves with a flush."""
        self._in_flush.take_from(self._fresh)

    def flush_ended(self) -> None:
        """It leaves as turns have time, or it is lost."""
        self._leaving.take_from(self._in_flush)

    def delivered(self) -> None:
        """Whatever was to leave has arrived."""
        if self._leaving.units:
            self._leaving.end()
            self.units = self._fresh.units + self._in_flush.units
