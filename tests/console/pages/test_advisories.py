"""Advisories, as a browser gets them from both servers."""

from __future__ import annotations

import json

from tests.console.conftest import until


def test_they_come_are_filtered_and_opened(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await user.open("/advisories")
            await user.should_see("0 came", retries=50)
            await world.stream(name)
            evil = b'{"type": "x.y", "reason": "<script> nats://a:hidden@b", "password": "hidden"}'
            other = b'{"type": "io.nats.jetstream.advisory.v1.consumer_action", "stream": "OTHER"}'
            await world.client.publish("$JS.EVENT.ADVISORY.CONSUMER.DELETED.OTHER.c", other)
            await world.client.publish("$JS.EVENT.ADVISORY.A.B", evil)
            [table] = user.find("advisory-table").elements

            # A server tells of what others do as well: consumers that other tests left to it.
            def own() -> list[dict[str, str]]:
                return [row for row in table.rows if row["about"] == name or row["kind"] == "y"]

            await until(lambda: len(own()) == 2)
            evil_row, made = own()
            assert (made["kind"], made["about"], made["words"]) == ("stream_action", name, "create")
            assert (evil_row["kind"], evil_row["words"]) == ("y", "<script> nats://(not shown)@b")
            user.find("advisory-table").trigger("rowClick", evil_row["number"])
            await user.should_see('"password": "(not shown)"', retries=50)
            await user.should_not_see("hidden")
            assert "hidden" not in json.dumps(table.rows)
            user.find(marker="open-row").trigger("click.stop", made["number"])
            await user.should_see('"action": "create"')
            user.find("filter").type("CREATE")
            await until(lambda: [row["about"] for row in table.rows] == [name])
            user.find("Listen again").click()
            user.find("requests").click()
            user.find("filter").clear()
            # Each request is told of once they are listened to.
            while not any(row["kind"] == "api_audit" for row in table.rows):
                await world.console.api.ask("INFO")
            # A connection that was given up, and with it what was listened to.
            client = world.console.link.client
            await client.close()
            await until(lambda: world.console.link.client is not client)
            await until(lambda: world.console.link.state.is_connected)
            before = table.rows[0]["number"]
            while table.rows[0]["number"] == before:
                await world.console.api.ask("INFO")
            client = world.console.link.client
            assert len(client._subs) == 3
            user.client.delete()
            await until(lambda: len(client._subs) == 1)

    run(work())


def test_what_the_user_may_not_hear_is_said_in_place(run, browse):
    async def work():
        async with browse(user="few") as (user, _):
            await user.open("/advisories")
            await user.should_see("ermissions violation for subscription", retries=50)

    run(work())
