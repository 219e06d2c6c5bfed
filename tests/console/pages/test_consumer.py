"""One consumer, from a browser to both servers: what destroys asks for the name."""

from __future__ import annotations

from tests.console.conftest import stated, until


async def consumer(world, name: str) -> None:
    await world.stream(name, [b"1", b"2"])
    await world.js.add_consumer(name, durable_name="C", ack_policy="explicit")


def test_it_shows_how_far_it_is_and_offers_no_change(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await consumer(world, name)
            await user.open(f"/streams/{name}/consumers/C")
            await user.should_see("2 messages", retries=50)
            assert stated(user, "Lag") == "2 messages"
            names = ("Unacknowledged", "Redelivered", "Waiting pulls")
            assert [stated(user, each) for each in names] == ["0", "0", "0"]
            assert (stated(user, "Delivered up to"), stated(user, "Filters")) == ("0", "all")
            [config] = user.find("config").elements
            assert '"durable_name": "C"' in config.text
            await user.should_not_see("Delete")
            await user.open(f"/streams/{name}/consumers/NONE")
            await user.should_see("consumer not found", retries=50)

    run(work())


def test_it_is_paused_and_goes_on(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            await consumer(world, name)
            await user.open(f"/streams/{name}/consumers/C")
            for button, words, is_paused in (
                ("Pause", "Paused until", True),
                ("Resume", "It goes on.", False),
            ):
                user.find(content=button).click()
                await user.should_see(words, marker=None, retries=50)
                info = await world.api.ask(f"CONSUMER.INFO.{name}.C")
                assert info.get("paused", False) is is_paused

    run(work())


def test_it_is_reset_and_deleted_only_by_who_writes_its_name(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            await consumer(world, name)
            await user.open(f"/streams/{name}/consumers/C")
            await user.should_see("2 messages", retries=50)
            user.find(content="Delete").click()
            await user.should_see("confirm-name", retries=50)
            [yes] = user.find("confirm").elements
            assert not yes.enabled
            user.find("confirm-name").type("c")
            assert not yes.enabled
            user.find(content="Cancel").click()
            await until(lambda: yes.is_deleted)
            assert await world.api.ask(f"CONSUMER.INFO.{name}.C")
            for button, words in (("Reset", "It was reset."), ("Delete", "It was deleted.")):
                user.find(content=button).click()
                await user.should_see("confirm-name", retries=50)
                user.find("confirm-name").type("C")
                user.find("confirm").click()
                await user.should_see(words, retries=50)
            assert (await world.js.stream_info(name)).state.consumer_count == 0

    run(work())
