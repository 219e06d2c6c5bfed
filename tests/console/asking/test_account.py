"""The account, on both servers and as one with tiers."""

from __future__ import annotations

import pytest
from jetstream_console.asking.account import account
from jetstream_console.asking.errors import AskingError


def test_what_an_account_holds(run, connected, name):
    async def work():
        async with connected() as world:
            before = await account(world.api)
            await world.stream(name, [b"x" * 1000])
            after = await account(world.api)
            assert after.total.streams == before.total.streams + 1
            assert after.total.storage >= before.total.storage + 1000
            assert (after.total.storage_max, after.tiers) == (-1, ())
            assert after.api_requests > before.api_requests
            with pytest.raises(AskingError):
                await world.api.ask("STREAM.INFO.NONE")
            assert (await account(world.api)).api_errors == after.api_errors + 1

    run(work())


def test_tiers_are_shown_by_their_names(run):
    tier = {"storage": 5, "limits": {"max_storage": 10}}

    class Played:
        async def ask(self, what):
            return {"storage": 5, "tiers": {"R3": tier, "R1": tier}, "domain": "hub"}

    async def work():
        found = await account(Played())
        assert [(each.tier, each.storage, each.storage_max) for each in found.tiers] == [
            ("R1", 5, 10),
            ("R3", 5, 10),
        ]
        assert found.domain == "hub"

    run(work())
