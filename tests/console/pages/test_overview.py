"""The overview, as a browser gets it from both servers."""

from __future__ import annotations

from jetstream_console.pages.charts import Chart
from nicegui import ui
from nicegui.testing import user_simulation

from tests.console.conftest import browsing, stated, until


def test_it_shows_server_account_and_streams(run, own_server, name):
    async def work():
        async with browsing(own_server) as (user, world):
            await world.stream(name, [b"x"] * 3)
            for consumer in ("A", "B"):
                await world.js.add_consumer(name, durable_name=consumer)
            await user.open("/")
            await user.should_see("Health", retries=50)
            await user.should_see(f"127.0.0.1:{world.console.link.state.place.split(':')[1]}")
            await until(lambda: stated(user, "Health") == "ok")
            info = await world.api.ask(f"STREAM.INFO.{name}")
            figures = [stated(user, each) for each in ("Streams", "Consumers", "Messages", "Held")]
            assert figures == ["1", "2", "3", f"{info['state']['bytes']} B"]
            with user:
                charts = list(user.find(ui.echart).elements)
            assert len(charts) == 7
            held = next(e for e in charts if e.options["title"]["text"] == "Messages held")
            await until(lambda: held.options["series"][0]["data"])
            *_, (at_ms, messages) = held.options["series"][0]["data"]
            axis = held.options["xAxis"]
            assert messages == 3 and at_ms == axis["max"]
            # What was not seen yet takes no room but that of two minutes.
            assert axis["max"] - axis["min"] == 120_000

    run(work())


def test_what_is_forbidden_is_said_in_place_and_the_rest_is_shown(run, browse):
    async def work():
        async with browse(user="few", monitor="") as (user, _):
            await user.open("/")
            await user.should_see("refusal", retries=50)
            await user.should_see('ermissions violation for publish to "$js.api.stream.list"')
            assert len(user.find(ui.echart).elements) == 4

    run(work())


def test_a_chart_grows_to_a_quarter_of_an_hour_and_no_further(run):
    async def work():
        async with user_simulation(lambda: None) as user:
            charts = []
            ui.page("/")(lambda: charts.append(Chart("held", ["files", "memory"])))
            await user.open("/")
            axis = charts[0].element.options["xAxis"]
            charts[0].show(0, [], [])
            assert "max" not in axis
            for first_s, shown_s in ((5000, 120), (4900, 120), (4500, 500), (4000, 900)):
                charts[0].show(5000, [(first_s, 1.0), (5000, 2.0)], [])
                assert (axis["min"], axis["max"]) == ((5000 - shown_s) * 1000, 5_000_000)
            charts[0].show(5000, [], [])
            assert axis["min"] == 4_880_000

    run(work())
