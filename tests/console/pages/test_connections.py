"""Clients and accounts, as a browser gets them from both servers."""

from __future__ import annotations

from tests.console.conftest import until


def test_clients_and_accounts_are_listed(run, browse):
    async def work():
        async with browse() as (user, world):
            await world.api.ask("INFO")
            await user.open("/connections")
            await user.should_see("account-table", retries=50)
            [table] = user.find("connection-table").elements
            assert "jetstream-console" in [row["name"] for row in table.rows]
            [accounts] = user.find("account-table").elements
            assert "$G" in [row["account"] for row in accounts.rows]
            [sort] = user.find("sort").elements
            sort.value = "msgs_to"
            await until(lambda: table.is_deleted)
            await user.should_see("connection-table", retries=50)
            [table] = user.find("connection-table").elements
            taken = [row["out_messages"] for row in table.rows]
            assert taken == sorted(taken, reverse=True)
            sort.value = "subs"
            await until(lambda: table.is_deleted)
            await user.should_see("connection-table", retries=50)
            [table] = user.find("connection-table").elements
            # The console listens to something, and is younger than who listens to nothing.
            numbers = [row["subscriptions"] for row in table.rows]
            assert numbers[0] > numbers[-1] and numbers == sorted(numbers, reverse=True)

    run(work())


def test_without_monitoring_it_says_what_to_give(run, browse):
    async def work():
        async with browse(monitor="") as (user, _):
            await user.open("/connections")
            await user.should_see("start with --monitor")

    run(work())


def test_a_monitoring_that_is_not_there_is_said_in_place(run, browse):
    async def work():
        async with browse(monitor="http://127.0.0.1:1") as (user, _):
            await user.open("/connections")
            await user.should_see("The monitoring does not answer", retries=50)

    run(work())
