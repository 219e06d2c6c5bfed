"""The overview, as a browser gets it from both servers."""

from __future__ import annotations

from nicegui import ui

from tests.console.conftest import until


def test_it_shows_server_account_and_streams(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name, [b"x"] * 3)
            await user.open("/")
            await user.should_see("Health", retries=50)
            await user.should_see(f"127.0.0.1:{world.console.link.state.place.split(':')[1]}")
            await user.should_see("ok")
            with user:
                charts = list(user.find(ui.echart).elements)
            assert len(charts) == 7
            held = next(e for e in charts if e.options["title"]["text"] == "Messages held")
            await until(lambda: held.options["series"][0]["data"])
            (at_ms, messages), *_ = held.options["series"][0]["data"]
            assert messages >= 3 and at_ms == held.options["xAxis"]["max"]

    run(work())


def test_what_is_forbidden_is_said_in_place_and_the_rest_is_shown(run, browse):
    async def work():
        async with browse(user="few", monitor="") as (user, _):
            await user.open("/")
            await user.should_see("refusal", retries=50)
            await user.should_see('ermissions violation for publish to "$js.api.stream.list"')
            assert len(user.find(ui.echart).elements) == 4

    run(work())
