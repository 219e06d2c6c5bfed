"""Publishing, from a browser to both servers."""

from __future__ import annotations


def test_a_message_is_published_and_its_place_is_said(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            await world.stream(name)
            await user.open("/publish")
            user.find("subject").type(f"{name}.a")
            [headers] = user.find("headers").elements
            [payload] = user.find("payload").elements
            headers.value, payload.value = "A: 1", "wörld"
            user.find("send").click()
            await user.should_see(f"Stored: {name}, sequence 1.", retries=50)
            message = await world.js.get_msg(name, 1)
            assert (message.data.decode(), message.headers["A"]) == ("wörld", "1")
            headers.value = "<b>"
            user.find("send").click()
            await user.should_see("'<b>' is no header", retries=50)
            headers.value = ""
            user.find("subject").clear().type("nobody.here")
            user.find("send").click()
            await user.should_see("Nobody listens to 'nobody.here'.", retries=50)

    run(work())


def test_where_nothing_may_be_changed_there_is_no_way_to(run, browse):
    async def work():
        async with browse() as (user, _):
            await user.open("/publish")
            await user.should_not_see("send")
            await user.should_not_see("subject")

    run(work())
