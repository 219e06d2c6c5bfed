"""Names under which mirrors and sources store what they copy."""

from __future__ import annotations

import pytest
from jetstream_server.jetstream.configs.stream_config import SubjectTransform
from jetstream_server.jetstream.origins.renaming import Renaming


def renaming(*rules: tuple[str, str]) -> Renaming:
    return Renaming([SubjectTransform(src=src, dest=dest) for src, dest in rules], "seed")


def test_the_first_rule_that_fits_names() -> None:
    found = renaming(("o.3", ""), ("o.*", "z.$1"), ("", "all.>"))
    assert bool(found)
    for _ in range(2):  # the second time from memory
        assert found.apply(b"o.3") == b"o.3"
        assert found.apply(b"o.4") == b"z.4"
        assert found.apply(b"x.y") == b"all.x.y"


def test_what_no_rule_fits_keeps_its_name() -> None:
    assert renaming(("o.*", "z.$1")).apply(b"p.1") == b"p.1"


def test_rules_that_only_select_rename_nothing() -> None:
    assert not renaming(("o.*", ""))
    assert not renaming()


def test_a_random_part_is_drawn_each_time() -> None:
    found = renaming(("o.*", "{{random(1000000)}}.$1"))
    assert len({found.apply(b"o.1") for _ in range(20)}) > 1


def test_what_is_remembered_has_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "jetstream_server.jetstream.origins.renaming"
    monkeypatch.setattr(f"{module}._REMEMBERED_BYTES_MAX", 10_000)
    found = renaming(("o.*", "z.$1"))
    for number in range(100):
        token = b"%01000d" % number
        assert found.apply(b"o." + token) == b"z." + token
        assert sum(len(a) + len(b) for a, b in found._known.items()) < 13_000
    assert found._known
