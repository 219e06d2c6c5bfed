"""Whether exports and imports fit together: who may import what, mappings, duplicates, cycles.

Messages name the place of the `accounts` block for all of this, as in the genuine server, since it
concerns several accounts. It is looked at only when nothing is wrong with any account alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from jetstream_server.config.options import AccountOptions, ExportOptions, ImportOptions
from jetstream_server.config.values import is_subject

_INVALID = "invalid mapping destination: "
_NUMBER_CHARACTERS_MAX = 20


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


def without_wrong_links(
    accounts: Sequence[AccountOptions],
) -> tuple[list[AccountOptions], list[str]]:
    """Return the accounts without impossible imports and timings, and why these are impossible."""
    checks = _Checks(accounts)
    notes: list[str] = []
    kept: dict[str, list[ImportOptions]] = {account.name: [] for account in accounts}
    for kind in ("stream", "service"):
        for account in accounts:
            for entry in account.imports:
                if entry.kind != kind:
                    continue
                texts = list(checks.take(account, entry))
                notes += [f"account {account.name}: {text}" for text in texts]
                if not texts:
                    kept[account.name].append(entry)
    good = []
    for account in accounts:
        if not account.exports and not account.imports:
            good.append(account)
            continue
        exports = []
        for export in account.exports:
            if wrong := latency_problem(account, export):
                notes.append(f'account {account.name}: latency of "{export.subject}": {wrong}')
                export = replace(export, latency=None)
            exports.append(export)
        imports = tuple(kept[account.name])
        good.append(replace(account, imports=imports, exports=tuple(exports)))
    return good, notes


class _Checks:
    """One pass; an import counts for the cycles and duplicates of those after it."""

    def __init__(self, accounts: Sequence[AccountOptions]) -> None:
        self._accounts = {account.name: account for account in accounts}
        self._taken: dict[str, list[ImportOptions]] = {name: [] for name in self._accounts}

    def export(self, account: AccountOptions, export: ExportOptions) -> Iterator[str]:
        for name in export.accounts:
            if name not in self._accounts:
                yield f'"{name}" account not defined for {export.kind} export'
        position = export.account_token_position
        tokens = export.subject.split(".")
        if position and not (0 < position <= len(tokens) and tokens[position - 1] == "*"):
            text = f'Error adding {export.kind} export "{export.subject}"'
            yield f"{text}: sublist: invalid subject"
        if wrong := latency_problem(account, export):
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
        else:
            self._taken[importer.name].append(entry)

    def _wrong(
        self, importer: AccountOptions, exporter: AccountOptions, entry: ImportOptions
    ) -> str:
        if not is_authorized(importer.name, exporter, entry):
            return f"{entry.kind} import not authorized"
        if "*" in entry.prefix or ">" in entry.prefix:
            return "stream import prefix can not contain wildcard tokens"
        if self._forms_cycle(importer.name, entry):
            return "import forms a cycle"
        if not is_subject(entry.local_subject) or not is_subject(entry.subject):
            return "sublist: invalid subject"
        if entry.kind == "stream" and any(
            (other.kind, other.account, other.subject) == ("stream", entry.account, entry.subject)
            for other in self._taken[importer.name]
        ):
            return "stream import already exists"
        return "" if entry.prefix else mapping_error(entry)

    def _forms_cycle(self, importer: str, entry: ImportOptions) -> bool:
        """Tell whether what is imported comes from the importer itself, by whatever route.

        Requests travel from the importer to the exporter, messages of streams the other way; the
        subjects that count are those in the account between two imports.
        """
        if entry.account == importer and overlap(entry.subject, entry.local_subject):
            return True
        visited = {importer}
        waiting = [(entry.account, entry.subject)]
        while waiting:
            name, subject = waiting.pop()
            for other in self._taken.get(name, ()):
                if other.kind != entry.kind or not overlap(other.local_subject, subject):
                    continue
                if other.account in visited:
                    return True
                visited.add(name)
                waiting.append((other.account, other.subject))
        return False


def latency_problem(account: AccountOptions, export: ExportOptions) -> str:
    """Return why answers of a service cannot be timed; empty if they can be, or are not meant to
    be."""
    if export.latency is None:
        return ""
    if export.response != "singleton":
        return "bad service response type"
    subject = export.latency.subject
    services = [each.subject for each in account.exports if each.kind == "service"]
    is_literal = is_subject(subject) and not {"*", ">"} & set(subject.split("."))
    if not is_literal or any(is_within(subject, each) for each in services):
        return "invalid publish subject"
    return ""


def is_authorized(importer: str, exporter: AccountOptions, entry: ImportOptions) -> bool:
    """Tell whether one of the exporter's exports lets an account take this."""
    exports = [export for export in exporter.exports if export.kind == entry.kind]
    # The last export of a subject replaces earlier ones; an export of exactly this subject decides.
    by_subject = {export.subject: export for export in exports}
    export = by_subject.get(entry.subject) or next(
        (each for each in by_subject.values() if is_within(entry.subject, each.subject)), None
    )
    if export is None:
        return False
    if position := export.account_token_position:
        tokens = entry.subject.split(".")
        return position <= len(tokens) and tokens[position - 1] == importer
    is_open = not export.accounts and not export.is_private
    return is_open or importer in export.accounts


def export_of(exporter: AccountOptions, entry: ImportOptions) -> ExportOptions | None:
    """Return the export that serves an import."""
    by_subject = {each.subject: each for each in exporter.exports if each.kind == entry.kind}
    return by_subject.get(entry.subject) or next(
        (each for each in by_subject.values() if is_within(entry.subject, each.subject)), None
    )


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


def _tokens(subject: str) -> list[str]:
    return ["*" if t.startswith("$") and t[1:].isdecimal() else t for t in subject.split(".")]


def is_within(inner: str, outer: str) -> bool:
    """Tell whether every subject that matches one pattern matches the other too."""
    return _compare(inner, outer, lambda x, y: x != ">" and (x == y or y == "*"), one_way=True)


def overlap(a: str, b: str) -> bool:
    """Tell whether some subject matches both patterns, whose `$1` stand for any token."""
    return _compare(a, b, lambda x, y: x == y or "*" in (x, y), one_way=False)


def _compare(a: str, b: str, fits: Callable[[str, str], bool], *, one_way: bool) -> bool:
    left, right = _tokens(a), _tokens(b)
    for x, y in zip(left, right, strict=False):
        if y == ">" or (x == ">" and not one_way):
            return True
        if not fits(x, y):
            return False
    return len(left) == len(right)
