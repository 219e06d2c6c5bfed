"""Changes of streams, on both servers: what goes, and that nobody else's changes are lost."""

from __future__ import annotations

import pytest
from jetstream_console.asking.errors import RefusedError
from jetstream_console.asking.messages import MessageReader
from jetstream_console.asking.stream_changes import (
    Difference,
    delete_message,
    delete_stream,
    differences,
    parse_config,
    purge_stream,
    update_stream,
)
from jetstream_console.asking.streams import stream_detail


def test_messages_and_the_stream_are_removed(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name, [b"%d" % number for number in range(1, 11)])
            await world.js.publish(f"{name}.b", b"other")
            await delete_message(world.api, name, 2)
            with pytest.raises(RefusedError):
                await delete_message(world.api, name, 2)
            assert await purge_stream(world.api, name, before=4) == 2
            assert await purge_stream(world.api, name, f"{name}.a", keep=3) == 4
            with pytest.raises(RefusedError):
                await purge_stream(world.api, name, before=4, keep=3)
            page = await MessageReader(world.api, name).after(1)
            assert [each.sequence for each in page.messages] == [8, 9, 10, 11]
            assert await purge_stream(world.api, name) == 4
            await delete_stream(world.api, name)
            with pytest.raises(RefusedError, match="stream not found"):
                await delete_stream(world.api, name)

    run(work())


def test_a_configuration_is_changed_only_as_it_was_seen(run, connected, name):
    async def work():
        async with connected() as world:
            await world.stream(name)
            seen = (await stream_detail(world.api, name)).config
            made = await update_stream(world.api, name, seen, {**seen, "max_msgs": 7})
            assert made["max_msgs"] == 7
            with pytest.raises(RefusedError, match="Somebody has changed max_msgs meanwhile"):
                await update_stream(world.api, name, seen, {**seen, "max_msgs": 9})
            with pytest.raises(RefusedError, match="stream configuration update can not"):
                await update_stream(world.api, name, made, {**made, "storage": "memory"})
            assert (await stream_detail(world.api, name)).config["max_msgs"] == 7

    run(work())


def test_differences_name_the_fields():
    before = {"a": 1, "b": {"c": [1], "d": "ü"}, "e": {}}
    after = {"a": 1, "b": {"c": [2], "d": "ü"}, "f": "<b>"}
    assert differences(before, after) == (
        Difference("b.c", "[1]", "[2]"),
        Difference("e", "{}", "–"),
        Difference("f", "–", '"<b>"'),
    )
    assert differences(before, before) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "7",
        "[" * 100_000,
        '{"a":' * 2_000 + "1" + "}" * 2_000,
        '{"a": ' + "9" * 5_000 + "}",
    ],
)
def test_what_is_no_configuration_is_refused(text):
    with pytest.raises(RefusedError):
        parse_config(text)
    assert parse_config(' {"a": [null]}') == {"a": [None]}
