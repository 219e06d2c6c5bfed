"""What exports and imports together get wrong; recorded from `nats-server -t` 2.15.1."""

from __future__ import annotations

from collections import deque

import pytest
from jetstream_server.config.link_checks import (
    STEPS_OF_CYCLE_MAX,
    PossibleLinks,
    check_links,
    is_within,
    overlap,
)
from jetstream_server.config.options import (
    AccountOptions,
    ExportOptions,
    ImportOptions,
    LatencyOptions,
)

from tests.traced_lines import lines_of

X = AccountOptions(
    "X",
    exports=(
        *(ExportOptions("stream", each) for each in ("s", "w.*", "w2.*.*", "t.>")),
        *(ExportOptions("service", each) for each in ("v", "wv.*", "wv2.*.*", "tv.>")),
        ExportOptions("stream", "ps", ("Y",)),
        ExportOptions("service", "pv", ("Y",)),
        ExportOptions("stream", "pos.*", account_token_position=2),
    ),
)
Y = AccountOptions("Y")
MAPPING = "failed to create mapping transform for {} import subject from"
UNUSED = "invalid mapping destination: not using all of the token wildcard(s) in"


def without_wrong_links(accounts):
    """Return the accounts without what is impossible, and why it is so."""
    links = PossibleLinks(accounts)
    deque(links.find(), maxlen=0)
    return links.accounts, links.notes


def wrong(*imports, accounts=(X, Y)):
    return list(check_links((AccountOptions("B", imports=imports), *accounts)))


@pytest.mark.parametrize(
    "entry",
    [
        ImportOptions("stream", "X", "s"),
        ImportOptions("stream", "X", "w.*", to="p.$1"),
        ImportOptions("stream", "X", "w.*", to="p.*"),
        ImportOptions("stream", "X", "w2.*.*", to="p.$2.$1"),
        ImportOptions("stream", "X", "t.>", to="p.>"),
        ImportOptions("stream", "X", "t.a.b"),
        ImportOptions("stream", "X", "pos.B"),
        ImportOptions("stream", "X", "s", prefix="p."),
        ImportOptions("service", "X", "wv.*", to="x.*"),
        ImportOptions("service", "X", "wv2.*.*", to="x.$2.$1"),
        ImportOptions("service", "X", "wv.a", to="x.a"),
        ImportOptions("service", "X", "v", to="x.*"),
    ],
)
def test_what_fits(entry):
    assert wrong(entry) == []


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (ImportOptions("service", "ZZ", "a"), '"ZZ" account not defined for service import'),
        (ImportOptions("stream", "X", "nope"),
         'Error adding stream import "nope": stream import not authorized'),
        (ImportOptions("service", "X", "pv"),
         'Error adding service import "pv": service import not authorized'),
        (ImportOptions("stream", "X", "pos.A"),
         'Error adding stream import "pos.A": stream import not authorized'),
        (ImportOptions("stream", "X", ">"),
         'Error adding stream import ">": stream import not authorized'),
        (ImportOptions("stream", "X", "s", prefix="p.*"),
         'Error adding stream import "s": stream import prefix can not contain wildcard tokens'),
        (ImportOptions("service", "X", "v", to="x..y"),
         'Error adding service import "v": sublist: invalid subject'),
        (ImportOptions("stream", "X", "w.*", to="p"),
         f'Error adding stream import "w.*": {MAPPING.format("stream")} "w.*" to "p": {UNUSED} p'),
        (ImportOptions("stream", "X", "w.*", to="p.$2"),
         f'Error adding stream import "w.*": {MAPPING.format("stream")} "w.*" to "p.$2":'
         " invalid mapping destination: wildcard index out of range in $2: [2]"),
        (ImportOptions("stream", "X", "t.>", to="p.*"),
         f'Error adding stream import "t.>": {MAPPING.format("stream")} "t.>" to "p.*":'
         " invalid subject"),
        (ImportOptions("service", "X", "wv.*", to="x"),
         f'Error adding service import "wv.*": {MAPPING.format("service")} "x" to "wv.*":'
         f" {UNUSED} x"),
    ],
)  # fmt: skip
def test_what_does_not(entry, text):
    assert wrong(entry) == [text]


def test_exports():
    assert wrong(
        accounts=(AccountOptions("A", exports=(ExportOptions("stream", "a", ("Z",)),)),)
    ) == ['"Z" account not defined for stream export']
    for position in (1, 5):
        export = ExportOptions("service", "a.*", account_token_position=position)
        assert wrong(accounts=(AccountOptions("A", exports=(export,)),)) == [
            'Error adding service export "a.*": sublist: invalid subject'
        ]


def test_a_stream_is_imported_once():
    assert wrong(
        ImportOptions("stream", "X", "s", prefix="a"), ImportOptions("stream", "X", "s", prefix="b")
    ) == ['Error adding stream import "s": stream import already exists']


@pytest.mark.parametrize("kind", ["stream", "service"])
def test_cycles(kind):
    def account(name, source):
        return AccountOptions(
            name,
            exports=(ExportOptions(kind, "c"),),
            imports=(ImportOptions(kind, source, "c"),),
        )

    found = list(check_links((account("A", "B"), account("B", "C"), account("C", "A"))))
    assert found == [f'Error adding {kind} import "c": import forms a cycle']
    assert list(check_links((account("A", "A"),)))


@pytest.mark.parametrize(
    ("a", "b", "within", "collides"),
    [
        ("a.b", "a.*", True, True),
        ("a.*", "a.b", False, True),
        ("a.>", "a.*", False, True),
        ("a.b.c", "a.>", True, True),
        ("a", "a.>", False, False),
        ("a.$1", "a.b", False, True),
        ("a.b", "b.a", False, False),
    ],
)
def test_patterns(a, b, within, collides):
    assert is_within(a, b) is within
    assert overlap(a, b) is collides


@pytest.mark.parametrize(
    ("subject", "response", "reason"),
    [
        ("l", "singleton", ""),
        ("l", "stream", "bad service response type"),
        ("l", "chunked", "bad service response type"),
        ("a.*", "singleton", "invalid publish subject"),
        ("a..b", "singleton", "invalid publish subject"),
        ("v.x", "singleton", "invalid publish subject"),  # would be a request of its own
    ],
)
def test_which_services_can_be_timed(subject, response, reason):
    export = ExportOptions("service", "v.*", response=response, latency=LatencyOptions(subject))
    account = AccountOptions("B", exports=(export,))
    text = f'Error adding service latency sampling for "v.*" on subject "{subject}": {reason}'
    assert list(check_links([account])) == ([text] if reason else [])
    (kept,), notes = without_wrong_links([account])
    assert (kept.exports[0].latency is None) == bool(reason) == bool(notes)


def test_what_cannot_be_imported_is_left_out():
    good, bad = ImportOptions("stream", "X", "s"), ImportOptions("service", "X", "nope")
    (kept, _), notes = without_wrong_links([AccountOptions("B", imports=(bad, good)), X])
    assert kept.imports == (good,)
    assert notes == ['account B: Error adding service import "nope": service import not authorized']


def test_a_private_export_is_for_those_it_names():
    def taken(*accounts):
        export = ExportOptions("stream", "s", accounts, is_private=True)
        exporter = AccountOptions("E", exports=(export,))
        return not wrong(ImportOptions("stream", "E", "s"), accounts=(exporter,))

    assert not taken() and not taken("Z") and taken("B")


def many(count: int, kind: str = "stream") -> tuple[AccountOptions, ...]:
    """Return accounts of which one imports so much from the other, and some back."""
    there = tuple([ExportOptions(kind, f"x.{n}.>") for n in range(count)])
    back = tuple([ExportOptions(kind, f"y.{n}.>") for n in range(count)])
    take = tuple([ImportOptions(kind, "E", f"x.{n}.>") for n in range(count)])
    give = tuple([ImportOptions(kind, "I", f"y.{n}.>") for n in range(count)])
    return AccountOptions("E", exports=there, imports=give), AccountOptions(
        "I", (), exports=back, imports=take
    )


@pytest.mark.parametrize("kind", ["stream", "service"])
def test_an_import_takes_as_much_however_many_there_are(kind: str) -> None:
    """Of 2,400 each was compared with all exports, and with all imports: that took 0.7 s."""
    few, more = many(50, kind), many(200, kind)
    assert lines_of(lambda: without_wrong_links(more)) < 5 * lines_of(
        lambda: without_wrong_links(few)
    )


def test_what_is_possible_is_found_in_steps_and_stays_the_same_object() -> None:
    accounts = many(100)
    links = PossibleLinks(accounts)
    steps = list(links.find())
    assert len(steps) > 400 and max(steps) < 100
    assert all(found is given for found, given in zip(links.accounts, accounts, strict=True))
    wrong = ImportOptions("stream", "E", "nope")
    (made, *_), notes = without_wrong_links([AccountOptions("B", imports=(wrong,)), *accounts])
    assert made.imports == () and len(notes) == 1


def test_a_search_for_cycles_ends() -> None:
    """Each of 60 imports led to 60 others, and so on: it had no end."""
    levels, width = 6, 60
    accounts = [
        AccountOptions(
            f"L{level}",
            exports=(ExportOptions("service", ">"),),
            imports=tuple(
                [
                    ImportOptions("service", f"L{level + 1}", f"x.{n}.>", to=">")
                    for n in range(width if level < levels else 0)
                ]
            ),
        )
        for level in range(levels, -1, -1)
    ]
    links = PossibleLinks(accounts)
    assert max(links.find()) < 2 * STEPS_OF_CYCLE_MAX
    assert all("cycle" in each for each in links.notes)
