"""The imports of all accounts, as configured, joined to what the others export.

Names, rights and mappings were checked when the configuration was read. A new configuration takes
down what is no more, joins what is new and lets the rest be; what is still on its way ends at the
replies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain
from random import Random

from jetstream_server.config.offers import Offers
from jetstream_server.config.options import AccountOptions, ImportOptions
from jetstream_server.core.subscription import Subscription
from jetstream_server.core.wildcard_mapping import WildcardMapping
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.joining import Joining
from jetstream_server.node.accounts.service_imports import ServiceImport
from jetstream_server.node.accounts.service_replies import ResponseTerms
from jetstream_server.node.accounts.stream_imports import StreamImport
from jetstream_server.node.service_latency import LatencyTerms

_API = "$JS.API.>"
_UNITS_OF_LINK = 4  # of some microseconds
_SAME_OF_UNIT = 10


_JoinedImport = StreamImport | ServiceImport
# Links of which one can stand for the other.
_Terms = tuple[Account, Account, ImportOptions, ResponseTerms | None, bool]


class AccountLinks:
    """Everything that crosses between accounts.

    Args:
        accounts: by name.
        configured: what they are configured to be.
        random: chooses the requests whose answers are timed.
        before: the links that these replace.
    """

    def __init__(
        self,
        accounts: Mapping[str, Account],
        configured: Mapping[str, AccountOptions],
        random: Random,
        before: AccountLinks | None = None,
    ) -> None:
        """Note what is to be joined; `open` and `join` do it."""
        self._random = random
        self._accounts = accounts
        self._configured = configured
        self._before = before
        self._links: dict[str, dict[_JoinedImport, _Terms]] = {}  # by importer
        self._new: list[_JoinedImport] = []
        self._old: list[_JoinedImport] = []  # of those before, which are no more
        self._making = self._make()
        self._joining: Joining | None = None
        self._is_half_open = False

    def make(self) -> Iterator[int]:
        """Make the links, so that it takes little to open them; give after each step what it took,
        in units of some microseconds."""
        return self._making

    def _make(self) -> Iterator[int]:
        offers: dict[str, Offers] = {}
        there = {} if self._before is None else dict(self._before._links)
        if self._before is not None and self._before._is_half_open:
            # None of its links can be relied on, and some of those before it may be there still.
            for links in there.values():
                self._old += links
            self._old += self._before._old
            self._before, there = None, {}
        for options in self._configured.values():
            yield 1
            before = there.pop(options.name, {})
            if self._are_same(options, before):
                yield len(before) // _SAME_OF_UNIT
                if before:
                    self._links[options.name] = before
                continue
            links = self._links[options.name] = {}
            replaceable: dict[_Terms, list[_JoinedImport]] = {}
            for link, terms in before.items():
                replaceable.setdefault(terms, []).append(link)
                yield 1
            for entry in options.imports:
                if entry.account not in offers:
                    offers[entry.account] = Offers(self._configured[entry.account].exports)
                    yield from offers[entry.account].index()
                terms = self._terms(self._accounts[options.name], entry, offers[entry.account])
                same = replaceable.get(terms)
                kept = same.pop() if same else None
                if kept is None or _has_outage(kept):
                    kept = self._link(*terms)
                    self._new.append(kept)
                links[kept] = terms
                yield _UNITS_OF_LINK
            self._old += [link for link in before if link not in links]
        for links in there.values():
            self._old += links
        yield _UNITS_OF_LINK * (len(self._new) + len(self._old))  # which is what it takes to open

    def _are_same(self, options: AccountOptions, links: dict[_JoinedImport, _Terms]) -> bool:
        """Tell whether the links of an account are those that there were before; perhaps they are
        even if it says no."""
        if self._before is None:
            return not options.imports
        before = self._before._configured
        if options.name not in before or before[options.name].imports is not options.imports:
            return not options.imports and not links
        exporters = dict.fromkeys([entry.account for entry in options.imports])
        return all(self._configured[name] is before.get(name) for name in exporters) and not any(
            map(_has_outage, links)
        )

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return any(self._links.values())

    def open(self, *, joins: bool = True) -> dict[Account, Iterator[Subscription]]:
        """Join the accounts, in place of the links before.

        Args:
            joins: whether subscriptions that are there hear what is imported; else from `join` on.

        Returns:
            Subscriptions that hear nothing any more, by the accounts out of whose lists they are to
            be taken.
        """
        deque(self._making, maxlen=0)
        self._is_half_open = True
        left: dict[Account, list[Iterator[Subscription]]] = {}
        for link in self._old:
            if isinstance(link, StreamImport):
                account, shadows = link.leave()
                left.setdefault(account, []).append(shadows)
            else:
                link.close()
        for account in self._accounts.values():
            account.reach(self._exporters)
        streams = []
        for link in self._new:
            if isinstance(link, StreamImport):
                streams.append(link)
                link.begin()
            else:
                link.open()
        if streams:
            self._joining = Joining(streams, streams[0].importer)
        self._before, self._new, self._old = None, [], []
        self._is_half_open = False
        if joins:
            self.join()
        return {account: chain.from_iterable(each) for account, each in left.items()}

    def join(self) -> None:
        """Have subscriptions that are there hear what is imported from now on."""
        if self._joining is not None:
            self._joining.begin()

    @property
    def are_joining(self) -> bool:
        """Return whether subscriptions that are there are yet to be joined, in the next turns."""
        return self._joining is not None and not self._joining.is_over

    def outages(self) -> list[tuple[str, str]]:
        """Return which links were given up, and why; a new configuration makes them again."""
        return [
            (str(each), each.outage)
            for links in self._links.values()
            for each in links
            if isinstance(each, StreamImport) and each.outage
        ]

    def close(self) -> None:
        """Part them."""
        for account in self._accounts.values():
            account.reach(None)
        for links in self._links.values():
            for link in links:
                link.close()

    def _terms(self, importer: Account, entry: ImportOptions, offers: Offers) -> _Terms:
        exporter = self._accounts[entry.account]
        if entry.kind == "stream":
            return importer, exporter, entry, None, entry.allows_trace
        export = offers.export_of(entry)
        assert export is not None, "an import without an export is refused when it is read"
        given, latency = export.latency, None
        if given is not None:
            latency = LatencyTerms(given.percent, given.subject.encode())
        terms = ResponseTerms(export.response, export.response_threshold_ns, latency)
        return importer, exporter, entry, terms, export.allows_trace

    def _link(
        self,
        importer: Account,
        exporter: Account,
        entry: ImportOptions,
        terms: ResponseTerms | None,
        allows_trace: bool,
    ) -> _JoinedImport:
        mapping = WildcardMapping(entry.subject.encode(), entry.local_subject.encode())
        if terms is None:
            return StreamImport(importer, exporter, mapping, allows_trace=allows_trace)
        return ServiceImport(
            importer,
            exporter,
            mapping,
            terms,
            self._random,
            is_sharing=entry.is_sharing,
            allows_trace=allows_trace,
        )

    def _exporters(self, name: str) -> tuple[Account, ...]:
        """Return the accounts that one imports from, directly or indirectly."""
        reached: dict[str, None] = {}
        waiting = [name]
        while waiting:
            options = self._configured.get(waiting.pop())
            for entry in options.imports if options is not None else ():
                if entry.account not in reached and entry.account != name:
                    reached[entry.account] = None
                    waiting.append(entry.account)
        return tuple([self._accounts[each] for each in reached])


def _has_outage(link: _JoinedImport) -> bool:
    return isinstance(link, StreamImport) and bool(link.outage)


def has_own_api(options: AccountOptions | None) -> bool:
    """Tell whether an account's API is its own: it may import another account's instead."""
    return options is None or not any(
        entry.kind == "service" and entry.local_subject == _API for entry in options.imports
    )
