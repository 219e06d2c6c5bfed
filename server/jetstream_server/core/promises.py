"""What accounts have promised to very many subscriptions, until it has reached them.

An ack goes to whatever reply its publisher names, and thousands may listen there; a copy of a
message is stored by another stream. A turn takes on no more of that than it has time for. But what
is promised waits for the disk, and while a flush is slow, turns are many: what all of them promise
leaves at once. So whoever has promised much is not heard again before that has arrived. Nobody else
waits for it, and what is promised in one account does not count in another.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

# In one account, of the workload: about as much as one turn delivers.
PROMISED_UNITS_MAX = 300


@dataclass(slots=True)
class _Promised:
    """What was promised in one account, and has come equally far.

    Attributes:
        units: what it is worth, all together.
        clients: who asked for it.
    """

    units: float = 0.0
    clients: set[object] = field(default_factory=set)


class Promises:
    """What one node has promised. Accounts are told apart by any object that stands for one.

    Attributes:
        arrivals: how often something has arrived, or is waited for no more: nobody who has to wait
            goes on before.
        unclaimed: the accounts in which something was promised, of which it was not said yet who
            asked.
        fresh: what was promised since the last flush began, in each account.
        much: the accounts in which it is much.
    """

    def __init__(self) -> None:
        self.arrivals = 0
        self.unclaimed: dict[object, None] = {}
        self.fresh: dict[object, _Promised] = {}
        self._in_flush: dict[object, _Promised] = {}
        # The disk has it, and turns deliver it as they have time.
        self._leaving: dict[object, _Promised] = {}
        self.much: set[object] = set()
        self._asked: dict[object, set[object]] = {}  # of each client, in which accounts it did

    def units(self, account: object) -> float:
        """Return what has yet to arrive."""
        return sum(promised.units for promised in self._promised_in(account))

    def _promised_in(self, account: object) -> list[_Promised]:
        stages = (self.fresh, self._in_flush, self._leaving)
        return [stage[account] for stage in stages if account in stage]

    def holds_up(self, client: object) -> bool:
        """Tell whether somebody has to wait, because it is among those who asked for much."""
        if not self.much:
            return False
        accounts = self._asked.get(client)
        return accounts is not None and not self.much.isdisjoint(accounts)

    def make(self, units: float, account: object) -> None:
        """Promise something that is worth so much."""
        self.fresh.setdefault(account, _Promised()).units += units
        self.unclaimed[account] = None
        if account not in self.much and self.units(account) > PROMISED_UNITS_MAX:
            self.much.add(account)

    def made_for(self, client: object) -> None:
        """Note who has asked for what was promised since this was noted last, None for nobody in
        particular."""
        for account in self.unclaimed:
            if client is not None and account in self.fresh:
                self.fresh[account].clients.add(client)
                self._asked.setdefault(client, set()).add(account)
        self.unclaimed.clear()

    def flush_began(self) -> None:
        """What was promised so far leaves with a flush."""
        if self.fresh:
            self.fresh = _moved(self.fresh, self._in_flush)

    def flush_ended(self) -> None:
        """It leaves as turns have time, or it is lost."""
        if self._in_flush:
            self._in_flush = _moved(self._in_flush, self._leaving)

    def delivered(self, late: Collection[object]) -> None:
        """Whatever was to leave has arrived, but in these accounts."""
        arrived = [account for account in self._leaving if account not in late]
        self.arrivals += len(arrived)
        for account in arrived:
            for client in self._leaving.pop(account).clients:
                if not any(client in each.clients for each in self._promised_in(account)):
                    self._asked[client].remove(account)
                    if not self._asked[client]:
                        del self._asked[client]
            if account in self.much and self.units(account) <= PROMISED_UNITS_MAX:
                self.much.remove(account)

    def forget(self) -> None:
        """Have nobody wait any more: nobody knows when it can arrive."""
        self.arrivals += 1
        for known in (self.fresh, self._in_flush, self._leaving, self._asked):
            known.clear()
        self.much.clear()


def _moved(
    earlier: dict[object, _Promised], later: dict[object, _Promised]
) -> dict[object, _Promised]:
    """Take everything that has come to a later stage; return what is left, which is nothing."""
    for account, promised in earlier.items():
        known = later.setdefault(account, promised)
        if known is not promised:
            known.units += promised.units
            known.clients |= promised.clients
    return {}
