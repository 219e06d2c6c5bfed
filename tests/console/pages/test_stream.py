"""One stream in detail, as a browser gets it from both servers."""

from __future__ import annotations

from nats.js.api import StreamSource

from tests.console.conftest import stated, until


def test_it_shows_state_config_consumers_and_subjects(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name, [b"1", b"2"], description="<script>alert(1)</script>")
            await world.js.publish(f"{name}.<b>", b"")
            await world.js.add_consumer(name, durable_name="C", filter_subject=f"{name}.a")
            await user.open(f"/streams/{name}")
            await user.should_see("consumer-table", retries=50)
            await user.should_see("<script>alert(1)</script>")
            info = await world.api.ask(f"STREAM.INFO.{name}")
            assert stated(user, "Messages") == "3" and stated(user, "Consumers") == "1"
            assert stated(user, "Size") == f"{info['state']['bytes']} B"
            assert stated(user, "Subjects held") == "2" and stated(user, "Removed between") == "0"
            assert stated(user, "First").startswith("1 · 20")
            assert stated(user, "Last").startswith("3 · 20")
            [table] = user.find("consumer-table").elements
            [row] = table.rows
            assert (row["name"], row["pending"], row["filters"]) == ("C", 2, f"{name}.a")
            [config] = user.find("config").elements
            assert f'"name": "{name}"' in config.text
            user.find("Show subjects").click()
            await user.should_see("2 subjects", retries=50)
            [subjects] = user.find("subject-table").elements
            assert subjects.rows == [
                {"subject": f"{name}.a", "messages": 2},
                {"subject": f"{name}.<b>", "messages": 1},
            ]
            user.find("pattern").clear().type(f"{name}.no").trigger("keydown.enter")
            await user.should_see("0 subjects", retries=50)

    run(work())


def test_who_asks_twice_sees_it_once_and_no_secret(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name, metadata={"password": "hidden", "team": "blue"})
            await world.js.add_consumer(name, durable_name="C", metadata={"auth_token": "hidden"})
            await user.open(f"/streams/{name}")
            await user.should_see("consumer-table")
            [config] = user.find("config").elements
            assert '"team": "blue"' in config.text and "hidden" not in config.text
            for button, table in (
                ("Look again", "consumer-table"),
                ("Show subjects", "subject-table"),
            ):
                before = user.find(table).elements if button == "Look again" else set()
                user.find(button).click()
                user.find(button).click()
                await user.should_see(table)
                await until(lambda before=before: all(each.is_deleted for each in before))  # type: ignore[misc]
                await world.settle()
                await until(lambda: len(world.api.link._asked) == 0)
                await user.should_see(table)
                assert len(user.find(table).elements) == 1
            await user.open(f"/streams/{name}/consumers/C")
            await user.should_see('"durable_name": "C"')
            [config] = user.find("config").elements
            assert "(not shown)" in config.text and "hidden" not in config.text

    run(work())


def test_a_mirror_says_how_far_behind_it_is(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name)
            await world.js.add_stream(name=f"{name}M", mirror=StreamSource(name=name))
            await user.open(f"/streams/{name}M")
            await user.should_see("Mirror of", retries=50)
            await user.should_see("lag 0")

    run(work())


def test_a_stream_that_is_not_there_is_said_by_the_server(run, browse):
    async def work():
        async with browse() as (user, _):
            for path, words in (("NONE", "stream not found"), ("a.b", "cannot be a name")):
                await user.open(f"/streams/{path}")
                await user.should_see(words, retries=50)

    run(work())


def test_while_the_server_is_away_the_page_says_so(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name)
            await world.console.link.close()
            await user.open(f"/streams/{name}")
            await user.should_see("There is no connection to a server", retries=50)
            await user.should_see(". What is here is from before", retries=50)
            await until(lambda: "not connected" in next(iter(user.find("state").elements)).text)
            [light] = user.find("●").elements
            assert light.props["data-is"] == "off"

    run(work())
