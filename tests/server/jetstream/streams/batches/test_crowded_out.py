"""What is remembered of batches that there was no room for."""

from __future__ import annotations

from jetstream_server.jetstream.streams.batches.crowded_out import REMEMBERED_MAX, CrowdedOut


def test_what_was_full_is_told_until_it_is_forgotten() -> None:
    crowded_out = CrowdedOut()
    assert crowded_out.what_was_full(b"a") == ""
    crowded_out.note(b"a", "this")
    crowded_out.note(b"b", "that")
    assert (crowded_out.what_was_full(b"a"), crowded_out.what_was_full(b"b")) == ("this", "that")
    crowded_out.forget(b"a")
    crowded_out.forget(b"never")
    assert (crowded_out.what_was_full(b"a"), len(crowded_out)) == ("", 1)
    crowded_out.close()
    assert len(crowded_out) == 0


def test_only_the_last_few_are_remembered() -> None:
    crowded_out = CrowdedOut()
    for number in range(REMEMBERED_MAX):
        crowded_out.note(b"%d" % number, "this")
    crowded_out.note(b"0", "that")  # now it is the last one
    crowded_out.note(b"more", "this")
    assert len(crowded_out) == REMEMBERED_MAX
    assert crowded_out.what_was_full(b"0") == "that"
    assert crowded_out.what_was_full(b"1") == ""
