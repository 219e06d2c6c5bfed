"""The imports of all accounts, as configured, joined to what the others export.

Names, rights and mappings were checked when the configuration was read. A new configuration takes
the old links down and makes its own; what is still on its way ends at the replies.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from jetstream_server.config.link_checks import export_of
from jetstream_server.config.options import AccountOptions, ImportOptions
from jetstream_server.core.wildcard_mapping import WildcardMapping
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.service_imports import ServiceImport
from jetstream_server.node.accounts.service_replies import ResponseTerms
from jetstream_server.node.accounts.stream_imports import StreamImport
from jetstream_server.node.service_latency import LatencyTerms

_API = "$JS.API.>"


class AccountLinks:
    """Everything that crosses between accounts."""

    def __init__(
        self,
        accounts: Mapping[str, Account],
        configured: Mapping[str, AccountOptions],
        random: Random,
    ) -> None:
        """Prepare the links; `open` makes them."""
        self._random = random
        self._accounts = accounts
        self._configured = configured
        self._links: list[StreamImport | ServiceImport] = [
            self._link(accounts[options.name], entry)
            for options in configured.values()
            for entry in options.imports
        ]

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._links)

    def open(self) -> None:
        """Join the accounts."""
        for account in self._accounts.values():
            account.reach(self._exporters)
        for link in self._links:
            link.open()

    def outages(self) -> list[tuple[str, str]]:
        """Return which links were given up, and why; a new configuration makes them again."""
        given_up = [each for each in self._links if isinstance(each, StreamImport) and each.outage]
        return [(str(each), each.outage) for each in given_up]

    def close(self) -> None:
        """Part them."""
        for account in self._accounts.values():
            account.reach(None)
        for link in self._links:
            link.close()

    def _link(self, importer: Account, entry: ImportOptions) -> StreamImport | ServiceImport:
        exporter = self._accounts[entry.account]
        mapping = WildcardMapping(entry.subject.encode(), entry.local_subject.encode())
        if entry.kind == "stream":
            return StreamImport(importer, exporter, mapping, allows_trace=entry.allows_trace)
        export = export_of(self._configured[entry.account], entry)
        assert export is not None, "an import without an export is refused when it is read"
        given, latency = export.latency, None
        if given is not None:
            latency = LatencyTerms(given.percent, given.subject.encode())
        terms = ResponseTerms(export.response, export.response_threshold_ns, latency)
        return ServiceImport(
            importer,
            exporter,
            mapping,
            terms,
            self._random,
            is_sharing=entry.is_sharing,
            allows_trace=export.allows_trace,
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


def has_own_api(options: AccountOptions | None) -> bool:
    """Tell whether an account's API is its own: it may import another account's instead."""
    return options is None or not any(
        entry.kind == "service" and entry.local_subject == _API for entry in options.imports
    )
