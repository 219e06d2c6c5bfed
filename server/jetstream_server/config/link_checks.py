"""Whether exports and imports fit together: who may import what, mappings, duplicates, cycles.

Messages name the place of the `accounts` block for all of this, as in the genuine server, since it
concerns several accounts. It is looked at only when nothing is wrong with any account alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

from jetstream_server.config.offers import Offers
from jetstream_server.config.options import AccountOptions, ExportOptions, ImportOptions
from jetstream_server.config.subject_tree import SubjectTree, tokens_of
from jetstream_server.config.values import is_subject

_INVALID = "invalid mapping destination: "
_NUMBER_CHARACTERS_MAX = 20
_EXPORTS_OF_STEP = 50  # of which it is only seen that they are not timed
_STEPS_OF_LINK = 10  # beside what is compared
STEPS_OF_CYCLE_MAX = 60_000  # some hundredths of a second


def check_links(accounts: Sequence[AccountOptions]) -> Iterator[str]:
    """Yield the text of everything that is wrong."""
    checks = _Checks(accounts)
    for kind in ("stream", "service"):
        for account in accounts:
            for export in account.exports:
                if export.kind == kind:
                    yield from checks.export(account, export)
    for kind in ("stream", "service"):
        for account in accounts:
            for entry in account.imports:
                if entry.kind == kind:
                    yield from checks.take(account, entry)


class PossibleLinks:
    """Accounts without impossible imports and timings.

    Args:
        accounts: all of them, with whatever they ask for.

    Attributes:
        accounts: those without; the same object where nothing is left out.
        notes: why the others are impossible.
    """

    def __init__(self, accounts: Sequence[AccountOptions]) -> None:
        self._given = accounts
        self.accounts: list[AccountOptions] = []
        self.notes: list[str] = []

    def find(self) -> Iterator[int]:
        """Look for them; give after each link what that took, in steps of some microseconds."""
        checks = _Checks(self._given)
        importers = [account for account in self._given if account.imports]
        impossible: dict[str, set[int]] = {}  # by account, the places of its imports
        for kind in ("stream", "service"):
            for account in importers:
                for place, entry in enumerate(account.imports):
                    if entry.kind != kind:
                        continue
                    yield from checks.index(entry.account)
                    before = checks.steps
                    texts = list(checks.take(account, entry))
                    self.notes += [f"account {account.name}: {text}" for text in texts]
                    if texts:
                        impossible.setdefault(account.name, set()).add(place)
                    yield _STEPS_OF_LINK + checks.steps - before
        for account in self._given:
            if not account.exports and not account.imports:
                self.accounts.append(account)
                continue
            yield 1 + len(account.exports) // _EXPORTS_OF_STEP
            exports = account.exports
            if any(each.latency is not None for each in exports):
                exports = yield from self._timed_where_possible(account, checks)
            imports = account.imports
            if left_out := impossible.get(account.name):
                imports = tuple(
                    [each for place, each in enumerate(imports) if place not in left_out]
                )
            if exports is not account.exports or imports is not account.imports:
                account = replace(account, imports=imports, exports=exports)
            self.accounts.append(account)

    def _timed_where_possible(
        self, account: AccountOptions, checks: _Checks
    ) -> Generator[int, None, tuple[ExportOptions, ...]]:
        exports = []
        for export in account.exports:
            if wrong := latency_problem(account, export, checks.offers(account)):
                self.notes.append(f'account {account.name}: latency of "{export.subject}": {wrong}')
                export = replace(export, latency=None)
            exports.append(export)
            yield _STEPS_OF_LINK
        return tuple(exports)


class _EndlessError(Exception):
    """There are too many ways to go."""


class _Checks:
    """One pass; an import counts for the cycles and duplicates of those after it."""

    def __init__(self, accounts: Sequence[AccountOptions]) -> None:
        self._accounts = {account.name: account for account in accounts}
        # By account and kind; what is taken is held by the subject that it has there.
        # Only of those that others import from: nobody asks for the rest.
        self._taken: dict[tuple[str, str], SubjectTree[ImportOptions]] = {}
        self._exporters = {entry.account for account in accounts for entry in account.imports}
        self._streams_taken: set[tuple[str, str, str]] = set()
        self._offers: dict[str, Offers] = {}
        self._steps = 0

    @property
    def steps(self) -> int:
        """How much was compared so far."""
        return self._steps

    def offers(self, account: AccountOptions) -> Offers:
        """Return what an account exports."""
        offers = self._offers.get(account.name)
        if offers is None:
            offers = self._offers[account.name] = Offers(account.exports)
        return offers

    def index(self, name: str) -> Iterator[int]:
        """Index what an account exports; give after each export what it took."""
        account = self._accounts.get(name)
        return self.offers(account).index() if account is not None else iter(())

    def export(self, account: AccountOptions, export: ExportOptions) -> Iterator[str]:
        for name in export.accounts:
            if name not in self._accounts:
                yield f'"{name}" account not defined for {export.kind} export'
        position = export.account_token_position
        tokens = export.subject.split(".")
        if position and not (0 < position <= len(tokens) and tokens[position - 1] == "*"):
            text = f'Error adding {export.kind} export "{export.subject}"'
            yield f"{text}: sublist: invalid subject"
        if wrong := latency_problem(account, export, self.offers(account)):
            assert export.latency is not None
            text = f'Error adding service latency sampling for "{export.subject}"'
            yield f'{text} on subject "{export.latency.subject}": {wrong}'

    def take(self, importer: AccountOptions, entry: ImportOptions) -> Iterator[str]:
        exporter = self._accounts.get(entry.account)
        if exporter is None:
            yield f'"{entry.account}" account not defined for {entry.kind} import'
            return
        wrong = self._wrong(importer, exporter, entry)
        if wrong:
            yield f'Error adding {entry.kind} import "{entry.subject}": {wrong}'
            return
        if importer.name in self._exporters:
            taken = self._taken.get((importer.name, entry.kind))
            if taken is None:
                taken = self._taken[importer.name, entry.kind] = SubjectTree()
            self._steps -= taken.steps
            taken.add(entry.local_subject, entry)
            self._steps += taken.steps
        if entry.kind == "stream":
            self._streams_taken.add((importer.name, entry.account, entry.subject))

    def _wrong(
        self, importer: AccountOptions, exporter: AccountOptions, entry: ImportOptions
    ) -> str:
        offers = self.offers(exporter)
        self._steps -= offers.steps
        is_authorized = offers.let(importer.name, entry)
        self._steps += offers.steps
        if not is_authorized:
            return f"{entry.kind} import not authorized"
        if "*" in entry.prefix or ">" in entry.prefix:
            return "stream import prefix can not contain wildcard tokens"
        try:
            if self._forms_cycle(importer.name, entry):
                return "import forms a cycle"
        except _EndlessError:
            return "search cycle depth exhausted"
        if not is_subject(entry.local_subject) or not is_subject(entry.subject):
            return "sublist: invalid subject"
        if (importer.name, entry.account, entry.subject) in self._streams_taken and (
            entry.kind == "stream"
        ):
            return "stream import already exists"
        return "" if entry.prefix else mapping_error(entry)

    def _forms_cycle(self, importer: str, entry: ImportOptions) -> bool:
        """Tell whether what is imported comes from the importer itself, by whatever route.

        Requests travel from the importer to the exporter, messages of streams the other way; the
        subjects that count are those in the account between two imports.

        Raises:
            _EndlessError: that takes too long to find out.
        """
        if entry.account == importer and overlap(entry.subject, entry.local_subject):
            return True
        visited = {importer}
        waiting = [(entry.account, entry.subject)]
        done: dict[tuple[str, str], set[str]] = {}  # which accounts are behind a subject
        end = self._steps + STEPS_OF_CYCLE_MAX
        while waiting:
            if self._steps > end:
                raise _EndlessError
            self._steps += 1
            name, subject = there = waiting.pop()
            if there in done:
                # Behind others of them is nothing more, or they would be among those visited.
                if not done[there].isdisjoint(visited):
                    return True
                continue
            behind = done[there] = set()
            taken = self._taken.get((name, entry.kind))
            if taken is None:
                continue
            self._steps -= taken.steps
            others = taken.overlapping(subject)
            self._steps += taken.steps + len(others)
            for other in others:
                if other.account in visited:
                    return True
                visited.add(name)
                behind.add(other.account)
                waiting.append((other.account, other.subject))
        return False


def latency_problem(account: AccountOptions, export: ExportOptions, offers: Offers) -> str:
    """Return why answers of a service cannot be timed; empty if they can be, or are not meant to
    be.

    Args:
        offers: what the account exports.
    """
    if export.latency is None:
        return ""
    if export.response != "singleton":
        return "bad service response type"
    subject = export.latency.subject
    is_literal = is_subject(subject) and not {"*", ">"} & set(subject.split("."))
    if not is_literal or offers.covers("service", subject):
        return "invalid publish subject"
    return ""


def mapping_error(entry: ImportOptions) -> str:
    """Return why the subjects of an import cannot be renamed as it says, empty if they can."""
    source, target = entry.subject.split("."), entry.local_subject.split(".")
    stars = source.count("*")
    if entry.local_subject == entry.subject or (not stars and source[-1] != ">"):
        return ""
    wrong = ""
    numbers = _numbers(target)
    outside = next((n for n in numbers if n > stars), None)
    if (source[-1] == ">") != (target[-1] == ">"):
        wrong = "invalid subject"
    elif entry.kind == "stream" and outside is not None:
        wrong = f"{_INVALID}wildcard index out of range in ${outside}: [{outside}]"
    elif len({n for n in numbers if n <= stars}) < stars:
        where = entry.local_subject
        wrong = f"{_INVALID}not using all of the token wildcard(s) in {where}"
    if not wrong:
        return ""
    first, second = (entry.subject, entry.local_subject)
    if entry.kind == "service":
        first, second = second, first
    text = f'failed to create mapping transform for {entry.kind} import subject from "{first}"'
    return f'{text} to "{second}": {wrong}'


def _numbers(tokens: Sequence[str]) -> list[int]:
    """Return which wildcards of the source a destination uses; each `*` is the next of them."""
    numbers: list[int] = []
    stars = 0
    for token in tokens:
        if token == "*":
            stars += 1
            numbers.append(stars)
        elif token.startswith("$") and token[1:].isdecimal():
            # A number with more digits than any subject has tokens names none of its wildcards.
            numbers.append(int(token[1:_NUMBER_CHARACTERS_MAX]))
    return numbers


def is_within(inner: str, outer: str) -> bool:
    """Tell whether every subject that matches one pattern matches the other too."""
    return _compare(inner, outer, lambda x, y: x != ">" and (x == y or y == "*"), one_way=True)


def overlap(a: str, b: str) -> bool:
    """Tell whether some subject matches both patterns, whose `$1` stand for any token."""
    return _compare(a, b, lambda x, y: x == y or "*" in (x, y), one_way=False)


def _compare(a: str, b: str, fits: Callable[[str, str], bool], *, one_way: bool) -> bool:
    left, right = tokens_of(a), tokens_of(b)
    for x, y in zip(left, right, strict=False):
        if y == ">" or (x == ">" and not one_way):
            return True
        if not fits(x, y):
            return False
    return len(left) == len(right)
