"""What one account exports, as others ask for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from jetstream_server.config.options import ExportOptions, ImportOptions
from jetstream_server.config.subject_tree import SubjectTree

_UNITS_OF_EXPORT = 2


class Offers:
    """The exports of an account by their subjects, of which there may be thousands.

    Args:
        exports: in the order in which they are claimed; the last one of a subject replaces those
            before it.
    """

    def __init__(self, exports: Sequence[ExportOptions]) -> None:
        self._exports = exports
        self._by_subject: dict[tuple[str, str], ExportOptions] = {}
        self._trees: dict[str, SubjectTree[ExportOptions]] = {}
        self._indexing = self._index()

    def index(self) -> Iterator[int]:
        """Index them, which is done at once if somebody asks before; give after each what it took,
        in units of some microseconds."""
        return self._indexing

    def _index(self) -> Iterator[int]:
        for export in self._exports:
            self._by_subject[export.kind, export.subject] = export
        for (kind, subject), export in self._by_subject.items():
            tree = self._trees.get(kind)
            if tree is None:
                tree = self._trees[kind] = SubjectTree()
            tree.add(subject, export)
            yield _UNITS_OF_EXPORT

    @property
    def steps(self) -> int:
        """How much was compared so far."""
        return sum(tree.steps for tree in self._trees.values())

    def export_of(self, entry: ImportOptions) -> ExportOptions | None:
        """Return the export that serves an import: one of exactly its subject, else the first that
        contains it."""
        deque(self._indexing, maxlen=0)
        export = self._by_subject.get((entry.kind, entry.subject))
        if export is not None:
            return export
        tree = self._trees.get(entry.kind)
        found = tree.containing(entry.subject) if tree is not None else ()
        return found[0] if found else None

    def covers(self, kind: str, subject: str) -> bool:
        """Tell whether a subject is within what is exported."""
        deque(self._indexing, maxlen=0)
        tree = self._trees.get(kind)
        return tree is not None and bool(tree.containing(subject))

    def let(self, importer: str, entry: ImportOptions) -> bool:
        """Tell whether one of them lets an account take this."""
        export = self.export_of(entry)
        if export is None:
            return False
        if position := export.account_token_position:
            tokens = entry.subject.split(".")
            return position <= len(tokens) and tokens[position - 1] == importer
        is_open = not export.accounts and not export.is_private
        is_named = importer in export.accounts or (importer, entry.subject) in export.activated
        return is_open or is_named
