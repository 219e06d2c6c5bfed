"""Where published messages go: runs are cut where the set of subscribers changes.

Subject to targets is a dictionary that is dropped whenever the account's interest changes. Two
subjects with the same subscribers share one `Targets` object, so a run over many subjects of one
stream stays one run. Where whatever follows a prefix reaches the same subscribers, the prefix is
kept instead of the subjects, the shortest there is, because acks, and identifiers in one of the
last tokens, are new with every message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from random import Random

from jetstream_server.base.errors import StoreError
from jetstream_server.base.limits import SUBJECT_BYTES_OF_OP
from jetstream_server.core.answers import Answers
from jetstream_server.core.containment import UNCONTAINED, Containment, Incident
from jetstream_server.core.deliveries import (
    BYTES_OF_DELIVERY,
    MESSAGES_OF_DELIVERY,
    NODES_OF_SUBJECT,
    Deliveries,
    cost_of,
)
from jetstream_server.core.match import PIECE_MAX, Match
from jetstream_server.core.queue_group import in_turn
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Outlet, Sender, Stretch, Subscription
from jetstream_server.kernels import subjects
from jetstream_server.protocol.ops import PubRun

# Far above what one account's hot subjects need; a flood of one-off subjects is forgotten.
ROUTES_MAX = 65536
# What these hold, in subjects and in lists of subscriptions: a client may say subjects of some
# thousand bytes, and have each reach some thousand of its subscriptions, and never the same.
ROUTES_BYTES_MAX = 32 * 1024 * 1024
_BYTES_OF_REACHED = 48
# What a message costs, in deliveries, above which it is looked whether there is time for it.
COST_AT_ONCE_MAX = 64
# What few are sent together takes no time up to here, and is not divided up to there.
COPIED_UNCOUNTED_BYTES_MAX = 64 * 1024
COPIED_AT_ONCE_BYTES_MAX = 4 * 1024 * 1024
CLIENTS_AT_ONCE_MAX = 200  # before it is looked how many are to be sent something by now
MEMBERS_OF_DELIVERY = 16  # passed over in the time of one
_READ_OF_DELIVERY = 8  # of a crowd, in the time of one
DELIVERIES_OF_ONE_NOTED = 6  # made in the time of one that is traced
# Members of a group, above which those that are the publisher's are left out first.
_GROUP_MAX = 64
# A message for which a member of a group is chosen; and so many may use as much time again as
# there is for those that reach many.
_DELIVERIES_OF_CHOICE = 3
_CHOSEN_AT_ONCE = 50
_REACHED_OF_SUBJECT = 16  # noted in the time that a new subject takes
# Messages that nobody receives, or perhaps nobody, and what it costs to tell of one.
_UNANSWERED_AT_ONCE = 1000
# Subscriptions that are asked whether they take a message, of some at once, twice each: by whoever
# chooses among them, and to tell of what nobody takes.
_ASKED_AT_ONCE = 600
# Messages of the server come one by one, and streams take longer over each, and read its headers.
_DELIVERIES_OF_ONE = 5
_DELIVERIES_OF_ONE_WITHIN = 60
_HEADER_BYTES_OF_DELIVERY = 4
_DELIVERIES_OF_UNANSWERED = 8
_OUTLET, _WEIGHT = attrgetter("outlet"), attrgetter("weight")
_IS_FILTERED = attrgetter("is_filtered")


class Targets:
    """Everybody whom a subject reaches.

    Attributes:
        only: who gets all of it, if that is a single subscription, which may be alone in a queue.
        plain: subscriptions without a queue; of very many, those that are alone in theirs as well.
        queues: the members of each other queue group.
        width: how many get each message.
        cost: how much that is, measured in deliveries; members that get none are passed over.
        is_within: somebody is among them who is within the server, as a stream is.
        singly: what each message costs because somebody among them takes messages one by one.
        choosy: how many of them may not take all that reaches them.
        choosy_members: of these, how many share a queue.
        repeats: of very many, some are of the same client, one after the other in `plain`.
        crowd: so many that they are read in pieces, each of them targets of its own; then there is
            nobody in `plain` and `queues`. None if there are fewer.
    """

    __slots__ = (
        "choosy",
        "choosy_members",
        "cost",
        "crowd",
        "is_within",
        "only",
        "plain",
        "queues",
        "repeats",
        "singly",
        "width",
    )

    def __init__(self, match: Match) -> None:
        self.only = match.only
        self.crowd = match.crowd
        if self.crowd is not None:
            self._note_crowd(match.width)
            return
        self.plain = tuple(match.plain)
        groups = match.queues
        self.width = len(self.plain) + len(groups)
        self.cost = self.width
        self.is_within = False
        self.singly = 0
        alone = [group[0] for group in groups if len(group) == 1]
        if self.width == 1 and alone:
            self.only = alone[0]
        shared = tuple([group for group in groups if len(group) > 1])
        # Looked at one by one, a hundred thousand subscriptions take 20 ms.
        outlets: set[Outlet | None] | None = None
        if self.width > COST_AT_ONCE_MAX:
            outlets = set(map(_OUTLET, self.plain)).union(map(_OUTLET, alone))
        if outlets is None or None in outlets or not {1}.issuperset(map(_WEIGHT, self.plain)):
            for each in self.plain:
                self.cost += each.weight - 1
                if each.outlet is None:
                    self.is_within = True
                    if each.weight > 1:  # another account has it under another subject
                        self.singly += each.weight
            for each in alone:
                if each.outlet is None:
                    self.is_within = True
                    if each.weight > 1:
                        self.singly += max(each.weight, _DELIVERIES_OF_CHOICE)
        for group in shared:
            self.singly += max(group[0].weight, _DELIVERIES_OF_CHOICE)
            self.is_within = self.is_within or group[0].outlet is None
        if groups:
            self.cost += len(groups) + sum(map(len, groups)) // MEMBERS_OF_DELIVERY
        self.repeats = False
        if self.cost <= COST_AT_ONCE_MAX:
            self.queues = tuple(groups)
        else:
            # Who is alone in a group gets what it would get without one.
            self.plain, self.queues = (*self.plain, *alone), shared
            if outlets is None or None in outlets or 1 < len(outlets) < len(self.plain):
                clients: defaultdict[Outlet | Subscription, list[Subscription]] = defaultdict(list)
                for each in self.plain:
                    clients[each if each.outlet is None else each.outlet].append(each)
                self.repeats = len(clients) < len(self.plain)
                self.plain = tuple(chain.from_iterable(clients.values()))
            else:
                self.repeats = len(outlets) < len(self.plain)
        self.choosy_members = sum([_filtered_count(group) for group in self.queues])
        self.choosy = self.choosy_members + _filtered_count(self.plain)

    def _note_crowd(self, width: int) -> None:
        """Nothing is known of very many but how many there are."""
        self.plain, self.queues = (), ()
        self.width = self.cost = width
        self.is_within, self.repeats = True, False
        self.singly = self.choosy = self.choosy_members = 0

    @property
    def key(self) -> tuple[object, ...]:
        """Return what makes two targets the same: every subscription, each equal to itself only."""
        return self.crowd, self.plain, self.queues

    def pieces(self) -> Iterator[Targets]:
        """Iterate over all of them, in pieces if they are very many."""
        return iter((self,)) if self.crowd is None else map(Targets, self.crowd.pieces())


class Router:
    """Hands runs to subscribers.

    Args:
        sublist: the account's interest.
        random: picks members of queue groups.
        store_failed: told when a receiver met a damaged or failed store. What the receiver should
            have taken is lost to it, as if the stream did not exist; the others get theirs.
        containment: of what a receiver raises that nobody foresaw; again the others get theirs.
        deliveries: what a turn has time for.
    """

    def __init__(
        self,
        sublist: Sublist,
        random: Random,
        store_failed: Callable[[StoreError], None],
        containment: Containment = UNCONTAINED,
        deliveries: Deliveries | None = None,
    ) -> None:
        self._sublist = sublist
        self._deliveries = deliveries or Deliveries()
        self._random = random
        self._store_failed = store_failed
        self._containment = containment
        self._routes: dict[bytes, Targets | None] = {}
        # By how many tokens follow the prefix.
        self._families: list[dict[bytes, Targets | None]] = [
            {} for _ in range(subjects.TAIL_TOKENS_MAX + 1)
        ]
        self._shared: dict[tuple[object, ...], Targets] = {}
        self._routes_bytes = 0
        self._generation = -1

    def route(
        self,
        run: PubRun,
        sender: Sender | None,
        now: int,
        start: int = 0,
        stop: int | None = None,
        answers: Answers | None = None,
        late: Answers | None = None,
    ) -> int:
        """Deliver messages `start` up to `stop` of a run to everybody who wants them.

        Args:
            answers: of whoever says all this, who has to wait as soon as requests are put off here.
            late: where the rest of a message of the server is put off that reaches more than a
                turn has time for; None to deliver all of it at once.

        Returns:
            How far it came: `stop`, or where requests were put off.
        """
        if stop is None:
            stop = run.count
        index, deliveries, sublist = start, self._deliveries, self._sublist
        routes, families = self._routes, self._families
        while index < stop:
            # A delivery may change interest (an API request creates a stream), so look each time.
            if self._generation != sublist.generation:
                self._forget()
            cut, targets = subjects.segment(run.chunk, run.fields, index, stop, routes, families)
            if targets is None:
                if deliveries.subjects_left <= 0 and answers is not None:
                    break
                targets = self._targets(run.subject(index), in_steps=answers is not None)
                if targets is None:
                    break
                cut, _ = subjects.segment(run.chunk, run.fields, index, stop, routes, families)
            # A subject not met before ends the stretch only if others listen to it.
            while (
                cut < stop
                and deliveries.subjects_left > 0
                and self._targets(run.subject(cut), in_steps=answers is not None) is targets
            ):
                cut, _ = subjects.segment(run.chunk, run.fields, cut, stop, routes, families)
            only, singly = targets.only, targets.singly
            if answers is not None:
                is_for_clients = only is None or only.outlet is not None
                if is_for_clients and len(deliveries.clients) >= deliveries.clients_max:
                    break
                if only is None or only.is_filtered or singly:
                    cut = self._looked_at_together(targets, run, index, cut)
                    if cut == index:
                        break
            if only is not None:
                if not self._deliver_to_one(only, run, index, cut, sender, now):
                    if sender is not None:
                        sender.unanswered(run, index, cut)
                elif only.is_filtered and sender is not None:
                    self._tell_what_nobody_takes(targets, run, index, cut, sender)
            elif (
                targets.cost <= COST_AT_ONCE_MAX
                and targets.width * run.span(index, cut) <= COPIED_UNCOUNTED_BYTES_MAX
                and targets.crowd is None
            ):
                self._deliver(targets, 0, targets.width, run, index, cut, sender, now)
            else:
                cut = self._deliver_much(targets, run, index, cut, sender, now, answers, late)
                if cut == index:
                    break
            if late is not None:
                deliveries.left -= _cost_of_servers(targets, run, index, cut)
            if answers is not None:
                if singly and targets.cost <= COST_AT_ONCE_MAX:
                    deliveries.left -= singly * (cut - index)
                if answers.postponed:
                    return cut
            elif late is not None and late.postponed:
                return cut
            index = cut
        return index

    def _looked_at_together(self, targets: Targets, run: PubRun, index: int, cut: int) -> int:
        """Return how far messages are delivered together if each is looked at, for whoever gets
        them: `cut`, or less, or none of them where there is no time.

        Nothing is taken off for them before it is known that they are delivered, or turns would end
        with nothing delivered.
        """
        deliveries, only = self._deliveries, targets.only
        if targets.crowd is not None:
            return cut if deliveries.left > 0 else index
        if targets.singly and targets.cost <= COST_AT_ONCE_MAX:
            if deliveries.left <= -deliveries.most:
                return index
            cut = min(cut, index + max(deliveries.left // targets.singly, _CHOSEN_AT_ONCE))
        elif _may_be_unanswered(targets) if only is None else only.is_filtered:
            if deliveries.left <= 0:
                return index
            cut = min(cut, index + _UNANSWERED_AT_ONCE)
        if targets.choosy:
            asked = targets.choosy if run.reply(index) else targets.choosy_members
            cut = min(cut, index + max(_ASKED_AT_ONCE // asked, 1)) if asked else cut
        return cut

    def _deliver_much(
        self,
        targets: Targets,
        run: PubRun,
        index: int,
        cut: int,
        sender: Sender | None,
        now: int,
        answers: Answers | None,
        late: Answers | None,
    ) -> int:
        """Deliver messages that reach many, or that are much for all whom they reach.

        Returns:
            How far it came: `cut`, or less as there is no time for more.
        """
        deliveries = self._deliveries
        if targets.crowd is not None:
            waiting = answers if answers is not None else late
            if waiting is not None and deliveries.left <= 0:
                return index
            _Crowded(self, targets.pieces(), run, index, sender, waiting).receive(now)
            return index + 1
        cost, copied_bytes = targets.cost, targets.width * run.span(index, cut)
        if is_few := cost <= COST_AT_ONCE_MAX:
            cost = copied_bytes // BYTES_OF_DELIVERY
        else:
            cost = cost_of(cut - index, cost, copied_bytes)
        waiting = answers if answers is not None else late
        if waiting is not None and (answers is not None or cost > deliveries.most):
            # Few may use as much again: what one client says in a turn is delivered to ten at once.
            if deliveries.left <= (-deliveries.most if is_few else 0):
                return index
            if not is_few or copied_bytes > COPIED_AT_ONCE_BYTES_MAX:
                cut = min(cut, index + self._messages_at_once(targets))
                _Wide(self, targets, run, index, cut, sender, waiting).receive(now)
                return cut
        deliveries.left -= cost
        self._deliver(targets, 0, targets.width, run, index, cut, sender, now)
        return cut

    @property
    def is_spent(self) -> bool:
        """Return whether a message may have to wait for the next turn."""
        return self._deliveries.are_spent

    @property
    def has_time(self) -> bool:
        """Return whether the turn has time for messages that reach very many."""
        return self._deliveries.has_time

    def spend(self, cost: int) -> None:
        """Note that a message has cost more than that it reaches one.

        Args:
            cost: in deliveries.
        """
        self._deliveries.left -= cost

    @property
    def has_time_for_few(self) -> bool:
        """Return whether the turn has time for a message that is looked at for whom it reaches,
        which may use as much again as those that reach very many."""
        return self._deliveries.left > -self._deliveries.most

    def _messages_at_once(self, targets: Targets) -> int:
        """Return how many messages there is time for; where there is time for less than a few, as
        many as cost hardly more than one does."""
        return MESSAGES_OF_DELIVERY * max(self._deliveries.left // targets.cost - 1, 1)

    def _deliver_part(self, wide: _Wide, now: int) -> None:
        """Deliver messages to some more of very many."""
        targets = wide.targets
        copied_bytes = targets.width * wide.run.span(wide.start, wide.stop)
        cost = cost_of(wide.stop - wide.start, targets.cost, copied_bytes)
        first, left = wide.next, self._deliveries.left
        affordable = max(targets.width * left // cost, 1)
        last = min(first + min(affordable, CLIENTS_AT_ONCE_MAX), targets.width)
        left -= cost * (last - first) // targets.width
        # What is not enough for one more is nothing, or who comes next would not count as late.
        is_spent = last - first == affordable and last < targets.width
        self._deliveries.left = min(left, 0) if is_spent else left
        # Who is gone by now takes no time.
        plain = targets.plain
        while last < len(plain) and plain[last].closed:
            last += 1
        wide.next = last
        wide.reached = self._deliver(
            targets,
            first,
            wide.next,
            wide.run,
            wide.start,
            wide.stop,
            wide.sender,
            now,
            wide.reached,
            tells=wide.tells,
        )

    def _deliver(
        self,
        targets: Targets,
        first: int,
        last: int,
        run: PubRun,
        index: int,
        cut: int,
        sender: Sender | None,
        now: int,
        reached: bool = False,
        *,
        tells: bool = True,
    ) -> bool:
        """Deliver to some of those whom messages reach.

        Args:
            first: of those, counted through plain subscriptions and queue groups.
            last: the one after the last.
            reached: whether somebody has them already.
            tells: if nobody has them, and these are the last, tell the sender.

        Returns:
            Whether somebody has them now.
        """
        plain, queues = targets.plain, targets.queues
        if last < targets.width or first:
            queues = queues[max(first - len(plain), 0) : max(last - len(plain), 0)]
            plain = plain[first:last]
        if targets.repeats:
            reached |= self._deliver_to_clients(plain, run, index, cut, sender, now)
        else:
            for subscription in plain:
                if subscription.closed or (
                    sender is not None and not sender.echo and _is_own(subscription, sender)
                ):
                    continue
                reached = True
                try:
                    subscription.receiver.receive(
                        Stretch(run, index, cut, subscription, sender, now)
                    )
                except StoreError as error:
                    self._store_failed(error)
                except Exception as error:
                    self._containment.contain(error, now)
        for group in queues:
            reached |= self._deliver_to_group(group, run, index, cut, sender, now)
        if sender is not None and tells and last == targets.width:
            if not reached:
                self._tell_unanswered(run, index, cut, sender)
            elif _may_be_unanswered(targets):
                self._tell_what_nobody_takes(targets, run, index, cut, sender)
        return reached

    def _tell_unanswered(self, run: PubRun, start: int, stop: int, sender: Sender) -> None:
        told = sender.unanswered(run, start, stop)
        self._deliveries.left -= told * _DELIVERIES_OF_UNANSWERED

    def _tell_what_nobody_takes(
        self, targets: Targets, run: PubRun, start: int, stop: int, sender: Sender
    ) -> None:
        """Tell the sender of messages that reach only those who do not take them."""
        for index in range(start, stop):
            if run.reply(index) and not _is_taken(targets, run.subject(index), sender):
                self._tell_unanswered(run, index, index + 1, sender)

    def _deliver_to_clients(
        self,
        plain: Sequence[Subscription],
        run: PubRun,
        start: int,
        stop: int,
        sender: Sender | None,
        now: int,
    ) -> bool:
        """Deliver messages to subscriptions of which those of one client follow each other; return
        whether somebody has them now."""
        reached = False
        for outlet, of_one in groupby(plain, _OUTLET):
            left = [each for each in of_one if not each.closed]
            if outlet is None or len(left) == 1:
                for each in left:
                    reached |= self._deliver_to_one(each, run, start, stop, sender, now)
            elif left and (sender is None or sender.echo or not _is_own(left[0], sender)):
                reached = True
                try:
                    outlet.receive_for_each(left, Stretch(run, start, stop, left[0], sender, now))
                except Exception as error:
                    self._containment.contain(error, now)
        return reached

    def _deliver_to_group(
        self,
        group: tuple[Subscription, ...],
        run: PubRun,
        start: int,
        stop: int,
        sender: Sender | None,
        now: int,
    ) -> bool:
        if len(group) == 1:  # there is nothing to choose, and the stretch stays whole
            return self._deliver_to_one(group[0], run, start, stop, sender, now)
        reached = False
        if len(group) > _GROUP_MAX and sender is not None and not sender.echo:
            group = tuple(member for member in group if not _is_own(member, sender))
        for index in range(start, stop):
            for member in in_turn(group, self._random):
                if member.is_filtered and not member.takes(run.subject(index), sender):
                    continue
                if self._deliver_to_one(member, run, index, index + 1, sender, now):
                    reached = True
                    break
        return reached

    def _deliver_to_one(
        self,
        subscription: Subscription,
        run: PubRun,
        start: int,
        stop: int,
        sender: Sender | None,
        now: int,
    ) -> bool:
        """Deliver messages to one subscription; return False if it is closed, or they are its
        client's own and that does not want them back."""
        if subscription.closed or (
            sender is not None and not sender.echo and _is_own(subscription, sender)
        ):
            return False
        try:
            subscription.receiver.receive(Stretch(run, start, stop, subscription, sender, now))
        except StoreError as error:
            self._store_failed(error)
        except Exception as error:
            self._containment.contain(error, now)
        return True

    def reached(self, run: PubRun, sender: Sender) -> Iterator[tuple[Subscription, bool]]:
        """Iterate over those who get the only message of a run, with one member of each queue
        group.

        The second value tells whether it is the publisher, who does not want it back.
        """
        if self._generation != self._sublist.generation:
            self._forget()
        for targets in self._all_targets(run.subject(0)).pieces():
            yield from self._reached(targets, run, sender)

    def _reached(
        self, targets: Targets, run: PubRun, sender: Sender
    ) -> Iterator[tuple[Subscription, bool]]:
        deliveries = self._deliveries
        cost = DELIVERIES_OF_ONE_NOTED + run.span(0, 1) // BYTES_OF_DELIVERY
        for subscription in targets.plain:
            deliveries.left -= cost
            if not subscription.closed:
                yield subscription, not sender.echo and _is_own(subscription, sender)
        for group in targets.queues:
            deliveries.left -= cost + len(group) // MEMBERS_OF_DELIVERY
            members = list(in_turn(group, self._random))
            others = [each for each in members if sender.echo or not _is_own(each, sender)]
            if others:
                subject = run.subject(0)
                takers = (each for each in others if each.takes(subject, sender))
                yield next(takers, others[0]), False
            elif members:
                yield members[0], True

    def give_up(self, incident: Incident, now: int) -> None:
        """Look again at who wants what."""
        self._forget()

    def _forget(self) -> None:
        self._routes.clear()
        for family in self._families:
            family.clear()
        self._shared.clear()
        self._routes_bytes = 0
        self._generation = self._sublist.generation

    def _all_targets(self, subject: bytes) -> Targets:
        targets = self._targets(subject, in_steps=False)
        assert targets is not None, "it is looked up at once"
        return targets

    def _targets(self, subject: bytes, *, in_steps: bool) -> Targets | None:
        """Return whom a subject reaches, and remember it.

        Args:
            in_steps: give None where it takes longer than this turn has time for; whoever asks
                again goes on, and a turn has no time for others then.
        """
        prefixes = subjects.prefixes(subject)
        for prefix, tokens in prefixes:
            if (known := self._families[tokens].get(prefix)) is not None:
                return known
        if (known := self._routes.get(subject)) is not None:
            return known
        count = len(self._routes) + sum(map(len, self._families))
        if count > ROUTES_MAX or self._routes_bytes > ROUTES_BYTES_MAX:
            self._forget()
        looked_at = self._sublist.looked_at
        family, place = self._routes, subject
        match = None
        # What holds after a prefix holds after a longer one.
        for prefix, tokens in prefixes:
            wider = self._sublist.match_below(prefix, tokens)
            if wider is None:
                break
            match, family, place = wider, self._families[tokens], prefix
        deliveries = self._deliveries
        if match is None and in_steps:
            nodes_max = deliveries.subjects_left * NODES_OF_SUBJECT
            match = self._sublist.match_in_steps(subject, nodes_max)
            if match is None:
                deliveries.subjects_left = 0
                return None
        elif match is None:
            match = self._sublist.match(subject)
        nodes = self._sublist.looked_at - looked_at
        deliveries.subjects_left -= (
            1
            + len(subject) // SUBJECT_BYTES_OF_OP
            + nodes // NODES_OF_SUBJECT
            + match.size // _REACHED_OF_SUBJECT
        )
        targets = family[place] = self._share(match)
        self._routes_bytes += len(place)
        return targets

    def _share(self, match: Match) -> Targets:
        targets = Targets(match)
        known = self._shared.setdefault(targets.key, targets)
        if known is targets:
            self._routes_bytes += _BYTES_OF_REACHED * match.size
        return known


def _filtered_count(subscriptions: Sequence[Subscription]) -> int:
    return sum(map(bool, map(_IS_FILTERED, subscriptions)))


def _may_be_unanswered(targets: Targets) -> bool:
    """Tell whether perhaps nobody takes some of the messages, which is looked at for each."""
    return all(each.is_filtered for each in chain(targets.plain, *targets.queues))


def _is_taken(targets: Targets, subject: bytes, sender: Sender) -> bool:
    """Tell whether a message that somebody publishes is for any of those it reaches."""
    reached = chain(targets.plain, chain.from_iterable(targets.queues))
    return any(_may_have(each, subject, sender) for each in reached)


def _cost_of_servers(targets: Targets, run: PubRun, start: int, stop: int) -> int:
    """Return what messages of the server's own cost, in deliveries, however few they reach."""
    if not targets.is_within:
        return _DELIVERIES_OF_ONE * (stop - start)
    header_bytes = sum(run.header_size(index) for index in range(start, stop))
    return _DELIVERIES_OF_ONE_WITHIN * (stop - start) + header_bytes // _HEADER_BYTES_OF_DELIVERY


def _may_have(subscription: Subscription, subject: bytes, sender: Sender) -> bool:
    """Tell whether a message that somebody publishes is for a subscription."""
    if subscription.closed or (not sender.echo and _is_own(subscription, sender)):
        return False
    return subscription.takes(subject, sender)


def _is_own(subscription: Subscription, sender: Sender) -> bool:
    receiver: object = subscription.receiver
    return receiver is sender


@dataclass(slots=True, eq=False)
class _Wide:
    """Messages on their way to so many that it may take several turns. Postponable: who publishes
    them is not heard meanwhile."""

    router: Router
    targets: Targets
    run: PubRun
    start: int
    stop: int
    sender: Sender | None
    answers: Answers | None  # None to deliver to all at once
    tells: bool = True
    next: int = 0  # of those that they reach
    reached: bool = False

    def receive(self, now: int) -> None:
        """Deliver to as many of them as a turn has time for."""
        if not self.go_on(now):
            _put_off(self, self.answers)

    def go_on(self, now: int) -> bool:
        """Deliver to as many likewise; return whether all have them."""
        while self.next < self.targets.width:
            if self.answers is not None and not self.router.has_time:
                return False
            self.router._deliver_part(self, now)
        return True


@dataclass(slots=True, eq=False)
class _Crowded:
    """A message on its way to so many that they are read in pieces. Postponable likewise."""

    router: Router
    pieces: Iterator[Targets]
    run: PubRun
    index: int
    sender: Sender | None
    answers: Answers | None
    piece: _Wide | None = None
    reached: bool = False
    asked: bool = True  # all so far may not take all that reaches them
    taken: bool = False

    def receive(self, now: int) -> None:
        """Deliver to as many of them as a turn has time for."""
        while self.answers is None or self.router.has_time:
            if self.piece is None:
                self.piece = self._following()
                if self.piece is None:
                    self._tell()
                    return
            if self.piece.go_on(now):
                self._note(self.piece)
                self.piece = None
        _put_off(self, self.answers)

    def _following(self) -> _Wide | None:
        targets = next(self.pieces, None)
        if targets is None:
            return None
        self.router.spend(max(targets.width, PIECE_MAX) // _READ_OF_DELIVERY)
        index, sender, answers = self.index, self.sender, self.answers
        return _Wide(self.router, targets, self.run, index, index + 1, sender, answers, tells=False)

    def _note(self, piece: _Wide) -> None:
        self.reached = self.reached or piece.reached
        if self.sender is None or not self.asked:
            return
        self.asked = _may_be_unanswered(piece.targets)
        if self.asked and not self.taken:
            self.taken = _is_taken(piece.targets, self.run.subject(self.index), self.sender)

    def _tell(self) -> None:
        """Tell the sender if nobody has it."""
        if self.sender is not None and not (self.reached and (self.taken or not self.asked)):
            self.router._tell_unanswered(self.run, self.index, self.index + 1, self.sender)


def _put_off(rest: _Wide | _Crowded, answers: Answers | None) -> None:
    assert answers is not None, "otherwise it is done at once"
    answers.postpone(rest)
    answers.look_again()
