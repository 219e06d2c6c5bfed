"""Who the console is, on both servers."""

from __future__ import annotations

import pytest
from jetstream_console.asking.errors import RefusedError
from jetstream_console.asking.user import User, user


def test_the_user_and_what_it_may(run, connected):
    async def work():
        async with connected() as world:
            assert await user(world.api) == User("all", "$G", "everything", "everything")
        async with connected(user="few") as world:
            with pytest.raises(RefusedError, match="ermissions violation"):
                await user(world.api)

    run(work())


class Told:
    """An API whose connection answers one thing."""

    def __init__(self, answer: bytes):
        self.link = self
        self.answer = answer

    async def request(self, subject):
        assert subject == "$SYS.REQ.USER.INFO"
        return self.answer


def test_permissions_are_put_into_words(run):
    async def work():
        told = b'{"data":{"user":"u","permissions":{"publish":{"allow":["a.>","b"],"deny":["a.x"]},'
        found = await user(Told(told + b'"subscribe":{"deny":["c"]}}}}'))
        assert (found.publish, found.subscribe) == ("a.>, b except a.x", "everything except c")
        assert (await user(Told(b'{"data": 7}'))).publish == "everything"

    run(work())
