"""What is promised to very many, and who waits until it has arrived."""

from __future__ import annotations

from random import Random

from jetstream_server.core.promises import PROMISED_UNITS_MAX, Promises


def test_who_has_asked_for_much_waits_until_it_has_arrived_and_nobody_else() -> None:
    promises = Promises()
    promises.make(PROMISED_UNITS_MAX, "A")
    promises.made_for("a")
    assert not promises.holds_up("a")
    promises.make(1, "A")
    promises.made_for("b")
    for step in (promises.flush_began, promises.flush_ended):
        assert promises.holds_up("a") and promises.holds_up("b") and not promises.holds_up("c")
        promises.delivered(())
        step()
    assert promises.holds_up("a")
    promises.delivered(())
    assert not promises.holds_up("a") and promises.units("A") == 0
    promises.make(PROMISED_UNITS_MAX + 1, "A")
    assert not promises.holds_up("a"), "what it asked for is long there"


def test_what_is_promised_in_one_account_does_not_count_in_another() -> None:
    promises = Promises()
    promises.make(PROMISED_UNITS_MAX, "A")
    promises.made_for("a")
    promises.make(PROMISED_UNITS_MAX, "B")
    promises.made_for("b")
    assert not promises.holds_up("a") and not promises.holds_up("b")
    promises.make(1, "A")
    promises.made_for(None)
    assert promises.holds_up("a") and not promises.holds_up("b") and not promises.holds_up(None)


def test_who_asks_for_much_in_another_account_waits_for_that() -> None:
    promises = Promises()
    promises.make(PROMISED_UNITS_MAX, "A")
    promises.make(PROMISED_UNITS_MAX + 1, "B")
    promises.made_for("a")
    assert promises.holds_up("a")
    promises.flush_began()
    promises.flush_ended()
    promises.delivered({"B"})
    assert promises.holds_up("a") and promises.units("A") == 0
    promises.delivered(())
    assert not promises.holds_up("a")


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
    assert promises.holds_up("b") and not promises.holds_up("a")


def test_what_leaves_while_something_is_leaving_still_arrives_with_it() -> None:
    promises = Promises()
    for client in ("a", "b"):
        promises.make(PROMISED_UNITS_MAX, "A")
        promises.made_for(client)
        promises.flush_began()
        promises.flush_ended()
    assert promises.holds_up("a") and promises.holds_up("b")
    promises.delivered({"A"})
    assert promises.holds_up("a") and promises.units("A") == 2 * PROMISED_UNITS_MAX
    promises.delivered(())
    assert promises.units("A") == 0 and not promises.holds_up("a")


def test_nobody_waits_for_a_full_disk() -> None:
    promises = Promises()
    promises.make(PROMISED_UNITS_MAX + 1, "A")
    promises.made_for("a")
    promises.flush_began()
    promises.make(PROMISED_UNITS_MAX + 1, "B")
    promises.made_for("a")
    promises.forget()
    assert not promises.holds_up("a") and not promises.fresh
    promises.flush_ended()
    promises.delivered(())
    assert promises.units("A") == promises.units("B") == 0


def test_of_whom_nothing_is_under_way_nothing_is_remembered() -> None:
    random, promises = Random(3), Promises()
    under_way: list[list[tuple[str, str, int]]] = [[], [], []]  # fresh, in the flush, leaving
    for _ in range(3000):
        step = random.randrange(6)
        if step < 3:
            account, client = random.choice("AB"), random.choice("abc")
            units = random.randrange(1, 120)
            promises.make(units, account)
            promises.made_for(client)
            under_way[0].append((account, client, units))
        elif step == 3:
            promises.flush_began()
            under_way[1] += under_way[0]
            under_way[0] = []
        elif step == 4:
            promises.flush_ended()
            under_way[2] += under_way[1]
            under_way[1] = []
        else:
            late = random.choice(["", "A", "B"])
            promises.delivered(late)
            under_way[2] = [each for each in under_way[2] if each[0] in late]
        left = [each for stage in under_way for each in stage]
        for account in "AB":
            assert promises.units(account) == sum(each[2] for each in left if each[0] == account)
        much = [account for account in "AB" if promises.units(account) > PROMISED_UNITS_MAX]
        for client in "abc":
            asked = {account for account, other, _ in left if other == client}
            assert promises.holds_up(client) == bool(asked & set(much))
        assert set(promises._asked) == {client for _, client, _ in left}
