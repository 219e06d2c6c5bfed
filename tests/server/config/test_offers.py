"""What one account exports, by subject."""

import pytest
from jetstream_server.config.offers import Offers
from jetstream_server.config.options import ExportOptions, ImportOptions

EXPORTS = (
    ExportOptions("stream", "a.>"),
    ExportOptions("stream", "a.b"),
    ExportOptions("stream", "c", ("X",)),
    ExportOptions("stream", "c", ("Y",)),
    ExportOptions("service", "s.*", is_private=True),
    ExportOptions("service", "mine.*", account_token_position=2),
)


@pytest.mark.parametrize("is_indexed", [False, True])
def test_an_export_of_the_very_subject_comes_first_and_the_last_of_a_subject_counts(
    is_indexed: bool,
) -> None:
    offers = Offers(EXPORTS)
    if is_indexed:
        assert sum(offers.index()) > 0
    for subject, number in (("a.x", 0), ("a.b", 1), ("c", 3)):
        assert offers.export_of(ImportOptions("stream", "E", subject)) is EXPORTS[number]
    assert offers.export_of(ImportOptions("stream", "E", "s.x")) is None
    assert offers.export_of(ImportOptions("service", "E", "a.x")) is None
    assert offers.covers("service", "s.x") and not offers.covers("stream", "s.x")


def test_who_may_import() -> None:
    offers = Offers(EXPORTS)
    for who, kind, subject, is_let in (
        ("X", "stream", "a.x", True),
        ("X", "stream", "c", False),
        ("Y", "stream", "c", True),
        ("X", "stream", "d", False),
        ("X", "service", "s.x", False),
        ("X", "service", "mine.X", True),
        ("X", "service", "mine.Y", False),
    ):
        assert offers.let(who, ImportOptions(kind, "E", subject)) is is_let
