"""Changes of a stream, from a browser to both servers: each asks for its name."""

from __future__ import annotations

import json

from jetstream_console.asking.messages import MessageReader

from tests.console.conftest import until


def refused(user, subject: str) -> bool:
    """Tell whether a page shows that the server forbids to publish to a subject."""
    try:
        shown = [each.text for each in user.find("refusal").elements]
    except AssertionError:
        return False
    return any("ermissions violation" in each and f'{subject.lower()}"' in each for each in shown)


async def confirm(user, name: str, words: str) -> None:
    await user.should_see("confirm-name", retries=50)
    await user.should_see(words)
    user.find("confirm-name").type(name)
    user.find("confirm").click()


def test_messages_and_the_stream_are_removed_by_who_writes_its_name(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            await world.stream(name, [b"1", b"2", b"3", b"4"])
            await user.open(f"/streams/{name}")
            await user.should_see("purge-subjects", retries=50)
            [sequence] = user.find("doomed").elements
            sequence.value = 2
            user.find(content="Delete message").click()
            await confirm(user, name, f"Message 2 is removed: 1 B, of '{name}.a'.")
            await user.should_see("Message 2 was removed.", retries=50)
            left = await MessageReader(world.api, name).after(1)
            assert [each.sequence for each in left.messages] == [1, 3, 4]
            user.find("purge-subjects").type(f"{name}.*")
            [keep] = user.find("purge-keep").elements
            keep.value = 1
            user.find(content="Purge").click()
            await confirm(user, name, f"All messages of '{name}.*' except the newest 1 are")
            await user.should_see("2 messages were removed.", retries=50)
            sequence.value = 99
            user.find(content="Delete message").click()
            await user.should_see("no message found", retries=50)
            user.find(content="Delete stream").click()
            await user.should_see("confirm-name", retries=50)
            user.find("confirm-name").type(name.lower())
            [yes] = user.find("confirm").elements
            assert not yes.enabled
            user.find("confirm-name").clear().type(name)
            user.find("confirm").click()
            await user.should_see("The stream was deleted.", retries=50)
            user.find(content="Purge").click()
            await confirm(user, name, "except the newest 1")
            await user.should_see("stream not found", retries=50)

    run(work())


def test_a_configuration_is_compared_and_applied(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            await world.stream(name, [b"1", b"2"])
            await user.open(f"/streams/{name}")
            await user.should_see("new-config", retries=50)
            user.find(content="Read it").click()
            [text] = user.find("new-config").elements
            await until(lambda: text.value)
            config = json.loads(text.value)
            user.find(content="Compare").click()
            await user.should_see("Nothing is different.", retries=50)
            text.value = "{"
            user.find(content="Compare").click()
            await user.should_see("That is no JSON", retries=50)
            text.value = json.dumps(config | {"max_msgs": 1, "nonsense": 1})
            user.find(content="Compare").click()
            await user.should_see("difference-table", retries=50)
            [table] = user.find("difference-table").elements
            assert table.rows[0] == {"field": "max_msgs", "before": "-1", "after": "1"}
            text.value = json.dumps(config | {"max_msgs": 1})
            user.find(content="Apply").click()
            await confirm(user, name, "Changed: max_msgs.")
            await user.should_see("It was changed.", retries=50)
            assert (await world.js.stream_info(name)).state.messages == 1
            text.value = json.dumps(config | {"max_msgs": 1, "storage": "memory"})
            user.find(content="Apply").click()
            await confirm(user, name, "Changed: storage.")
            await user.should_see("can not", retries=50)

    run(work())


def test_secrets_of_a_configuration_are_not_shown_and_stay(run, browse, name):
    async def work():
        async with browse(is_writable=True) as (user, world):
            kept = {"password": "hidden", "home": "nats://a:hidden@b", "team": "blue"}
            await world.stream(name, metadata=kept)
            await user.open(f"/streams/{name}")
            await user.should_see("new-config")
            user.find(content="Read it").click()
            [text] = user.find("new-config").elements
            await until(lambda: text.value)
            assert "hidden" not in text.value and "nats://(not shown)@b" in text.value
            config = json.loads(text.value)
            metadata = config["metadata"] | {"team": "red"}
            text.value = json.dumps(config | {"metadata": metadata})
            user.find(content="Apply").click()
            await confirm(user, name, "Changed: metadata.team.")
            await user.should_see("It was changed.")
            found = (await world.js.stream_info(name)).config.metadata
            assert kept.items() - found.items() == {("team", "blue")}
            assert "hidden" not in text.value
            text.value = json.dumps(config | {"metadata": metadata | {"password": "other"}})
            user.find(content="Compare").click()
            await user.should_see("difference-table")
            [table] = user.find("difference-table").elements
            assert table.rows == [
                {
                    "field": "metadata.password",
                    "before": '"(not shown)"',
                    "after": '"(not shown)"',
                }
            ]
            text.value = json.dumps(config | {"description": "(not shown)"})
            user.find(content="Apply").click()
            await user.should_see("stands for what is hidden")

    run(work())


def test_what_the_user_may_not_do_the_server_says_in_place(run, browse, name):
    async def work():
        async with browse(user="few", is_writable=True) as (user, world):
            await world.stream(name, [b"1"])
            await world.js.add_consumer(name, durable_name="C")

            await user.open(f"/streams/{name}")
            await user.should_see("new-config")
            # Each in place: what it may not see is said elsewhere on the page.
            for button, verb in (("Purge", "purge"), ("Delete stream", "delete")):
                user.find(content=button).click()
                await confirm(user, name, "removed")
                await until(lambda verb=verb: refused(user, f"stream.{verb}.{name}"))  # type: ignore[misc]
            user.find(content="Read it").click()
            [text] = user.find("new-config").elements
            await until(lambda: text.value)
            text.value = json.dumps(json.loads(text.value) | {"max_msgs": 7})
            user.find(content="Apply").click()
            await confirm(user, name, "Changed: max_msgs.")
            await until(lambda: refused(user, f"stream.update.{name}"))
            await user.open(f"/streams/{name}/consumers/C")
            for button, verb in (
                ("Pause", "pause"),
                ("Resume", "pause"),
                ("Reset", "reset"),
                ("Delete", "delete"),
            ):
                user.find(content=button).click()
                if button in ("Reset", "Delete"):
                    await confirm(user, "C", "it")
                await until(lambda verb=verb: refused(user, f"consumer.{verb}.{name}.c"))  # type: ignore[misc]
            await user.open("/publish")
            user.find("subject").type(f"{name}.a")
            user.find("send").click()
            await until(lambda: refused(user, f"{name}.a"))
            assert (await world.js.stream_info(name)).state.last_seq == 1

    run(work())


def test_without_permission_nothing_is_offered(run, browse, name):
    async def work():
        async with browse() as (user, world):
            await world.stream(name)
            await user.open(f"/streams/{name}")
            await user.should_see("consumer-table", retries=50)
            await user.should_not_see("Purge")
            await user.should_not_see("Delete stream")
            await user.should_not_see("new-config")

    run(work())
