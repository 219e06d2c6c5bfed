"""What the body of a direct get asks for, as Go would read it."""

from __future__ import annotations

import orjson
import pytest
from jetstream_server.jetstream.streams.reads.direct_selection import Selection, decode


def test_keys_are_read_in_any_case_and_unknown_ones_are_not() -> None:
    assert decode(b'{"SEQ":3,"next_by_Subj":"a","batch":-1,"other":[]}') == Selection(
        seq=3, next_by_subj="a", batch=-1
    )
    assert decode(b'{"seq":null,"no_hdr":true}') == Selection(no_hdr=True)
    assert decode(b"null") == Selection()


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"7",
        b'{"seq":-1}',
        b'{"seq":"1"}',
        b'{"seq":1.5}',
        b'{"batch":true}',
        b'{"last_by_subj":1}',
        b'{"multi_last":"a"}',
        b'{"multi_last":[1]}',
        b'{"start_time":"yesterday"}',
        b'{"no_hdr":0}',
    ],
)
def test_malformed(body: bytes) -> None:
    assert decode(body) is None


def test_what_holds_too_much_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """300,000 objects kept everybody waiting for 30 ms."""
    monkeypatch.setattr(orjson, "loads", lambda text: pytest.fail("it is read"))
    assert decode(b'{"seq":1,"x":[%b0]}' % (b"{}," * 300_000)) is None


@pytest.mark.parametrize(
    ("selection", "is_contradictory"),
    [
        (Selection(seq=1, next_by_subj="a", batch=3), False),
        (Selection(seq=1, last_by_subj="a"), True),
        (Selection(seq=1, start_time=5), True),
        (Selection(last_by_subj="a", batch=1), True),
        (Selection(next_by_subj="a", multi_last=["b"]), True),
        (Selection(multi_last=["b"], up_to_seq=4), False),
        (Selection(multi_last=["b"], up_to_seq=4, up_to_time=5), True),
    ],
)
def test_contradictions(selection: Selection, is_contradictory: bool) -> None:
    assert selection.is_contradictory is is_contradictory


def test_an_empty_selection_selects_nothing() -> None:
    assert Selection(batch=4, max_bytes=5, no_hdr=True).is_empty
    assert not Selection(start_time=0).is_empty
