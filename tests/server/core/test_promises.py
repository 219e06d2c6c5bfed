"""What is promised to very many, and who waits until it has arrived."""

from __future__ import annotations

from jetstream_server.core.promises import PROMISED_UNITS_MAX, Promises


def test_who_has_asked_for_much_waits_until_it_has_arrived_and_nobody_else() -> None:
    promises = Promises()
    promises.make(PROMISED_UNITS_MAX, "A")
    promises.made_for("a")
    assert not promises.hold_up("a")
    promises.make(1, "A")
    promises.made_for("b")
    for step in (promises.flush_began, promises.flush_ended):
        assert promises.hold_up("a") and promises.hold_up("b") and not promises.hold_up("c")
        promises.delivered(())
        step()
    assert promises.hold_up("a")
    promises.delivered(())
    assert not promises.hold_up("a") and promises.units("A") == 0
    promises.make(PROMISED_UNITS_MAX + 1, "A")
    assert not promises.hold_up("a"), "what it asked for is long there"


def test_what_is_promised_in_one_account_does_not_count_in_another() -> None:
    promises = Promises()
    promises.make(PROMISED_UNITS_MAX, "A")
    promises.made_for("a")
    promises.make(PROMISED_UNITS_MAX, "B")
    promises.made_for("b")
    assert not promises.hold_up("a") and not promises.hold_up("b")
    promises.make(1, "A")
    promises.made_for(None)
    assert promises.hold_up("a") and not promises.hold_up("b") and not promises.hold_up(None)


def test_who_asks_for_much_in_another_account_waits_for_that() -> None:
    promises = Promises()
    promises.make(PROMISED_UNITS_MAX, "A")
    promises.make(PROMISED_UNITS_MAX + 1, "B")
    promises.made_for("a")
    assert promises.hold_up("a")
    promises.flush_began()
    promises.flush_ended()
    promises.delivered({"B"})
    assert promises.hold_up("a") and promises.units("A") == 0
    promises.delivered(())
    assert not promises.hold_up("a")


def test_what_is_promised_while_a_flush_runs_leaves_with_the_next_one() -> None:
    promises = Promises()
    promises.make(PROMISED_UNITS_MAX, "A")
    promises.made_for("a")
    promises.flush_began()
    promises.make(PROMISED_UNITS_MAX, "A")
    promises.made_for("b")
    promises.flush_ended()
    promises.delivered(())
    assert promises.units("A") == PROMISED_UNITS_MAX
    promises.make(1, "A")
    assert promises.hold_up("b") and not promises.hold_up("a")


def test_what_leaves_while_something_is_leaving_still_arrives_with_it() -> None:
    promises = Promises()
    for client in ("a", "b"):
        promises.make(PROMISED_UNITS_MAX, "A")
        promises.made_for(client)
        promises.flush_began()
        promises.flush_ended()
    assert promises.hold_up("a") and promises.hold_up("b")
    promises.delivered({"A"})
    assert promises.hold_up("a") and promises.units("A") == 2 * PROMISED_UNITS_MAX
    promises.delivered(())
    assert promises.units("A") == 0 and not promises.hold_up("a")


def test_nobody_waits_for_a_full_disk() -> None:
    promises = Promises()
    promises.make(PROMISED_UNITS_MAX + 1, "A")
    promises.made_for("a")
    promises.flush_began()
    promises.make(PROMISED_UNITS_MAX + 1, "B")
    promises.made_for("a")
    promises.forget()
    assert not promises.hold_up("a") and not promises.are_fresh
    promises.flush_ended()
    promises.delivered(())
    assert promises.units("A") == promises.units("B") == 0
