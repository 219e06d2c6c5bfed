"""The connection: whose words say what is wrong, and that it comes back."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from contextlib import asynccontextmanager

import nkeys
import pytest
from jetstream_console.asking.api import Api
from jetstream_console.asking.buckets import EntryReader, EntryWriter, all_buckets
from jetstream_console.asking.errors import RefusedError, UnansweredError, UnreachableError
from jetstream_console.asking.leftovers import Leftovers
from jetstream_console.asking.link import ServerLink, Target
from jetstream_console.asking.object_stores import ObjectReader, ObjectWriter, all_stores
from jetstream_console.asking.publishing import publish

from jetstream_spark.options.option_values import Secret
from tests.console.conftest import until, world_of
from tests.parity import credentials

# It demands certificates of its clients, knows users by their keys, and has a domain.
GUARDED = """
jetstream { store_dir: "$STORE", domain: hub }
tls { cert_file: "$CERT", key_file: "$KEY", ca_file: "$CA", verify: true }
authorization { users: [ { nkey: $NKEY }, { user: all, password: all } ] }
"""
TOKEN = """
jetstream { store_dir: "$STORE" }
authorization { token: "t0ps3cret" }
"""
CREDENTIALS = """\
-----BEGIN NATS USER JWT-----
%s
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
%s
------END USER NKEY SEED------
"""


def seed(name: str) -> str:
    """The secret of a user of `credentials.py`."""
    raw = hashlib.sha256(f"user {name}".encode()).digest()
    return nkeys.encode_seed(raw, nkeys.PREFIX_BYTE_USER).decode()


@asynccontextmanager
async def linked(port: int, scheme: str = "nats", **given):
    """Open a link to a server; whether it connects is another matter."""
    link = ServerLink(Target((f"{scheme}://localhost:{port}",), **given))
    link.open()
    try:
        yield link
    finally:
        await link.close()


def test_a_server_is_asked_and_known(run, connected, server):
    async def work():
        async with connected() as world:
            state = world.console.link.state
            assert (state.is_connected, state.place) == (True, f"127.0.0.1:{server.port}")
            assert state.server_version and state.max_payload == 16 << 20
            assert b'"streams"' in await world.console.link.request("$JS.API.INFO")

    run(work())


def test_nobody_listens(run, connected):
    async def work():
        async with connected() as world:
            with pytest.raises(UnreachableError, match="Nobody listens to 'nobody'"):
                await world.console.link.request("nobody")
            with pytest.raises(UnreachableError):
                await world.console.link.request("with space")
            with pytest.raises(RefusedError, match="too long"):
                await world.console.link.request("s" * 5_000)
            await world.console.link.request("$JS.API.INFO")
            assert world.console.link._asked == {}
            assert world.console.link.client.stats["reconnects"] == 0

    run(work())


def test_an_answer_that_does_not_come_is_given_up(run, connected):
    async def work():
        async with connected(request_timeout_s=0.05) as world:
            await world.client.subscribe("silent")
            await world.settle()
            with pytest.raises(UnreachableError, match=r"no answer within 0.05 s"):
                await world.console.link.request("silent")

    run(work())


def test_what_the_user_may_not_is_said_at_once_in_the_words_of_the_server(run, connected):
    async def work():
        async with connected(user="few", request_timeout_s=50) as world:
            asked = [world.console.link.request("$JS.API.STREAM.LIST") for _ in range(2)]
            for answer in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(answer, RefusedError)
                assert str(answer).lower() == (
                    'permissions violation for publish to "$js.api.stream.list"'
                )
            assert b'"streams"' in await world.console.link.request("$JS.API.INFO")

    run(work())


def test_a_server_that_goes_away_comes_back(run, own_server):
    async def work():
        async with world_of(own_server) as world:
            link = world.console.link
            own_server.kill()
            while link.state.is_connected:
                await asyncio.sleep(0.01)
            with pytest.raises(UnreachableError, match="no connection to a server"):
                await link.request("$JS.API.INFO")
            await asyncio.to_thread(own_server.start)
            while not link.state.is_connected:
                await asyncio.sleep(0.01)
            assert b'"streams"' in await link.request("$JS.API.INFO")

    run(work())


def test_what_is_asked_when_the_connection_is_lost_does_not_wait_for_an_answer(run, own_server):
    async def work():
        # So long that the test's own limit would end it.
        async with world_of(own_server, request_timeout_s=3600) as world:
            await world.client.subscribe("silent")
            await world.settle()
            asked = asyncio.ensure_future(world.api.link.request("silent"))
            await until(lambda: "silent" in world.api.link._asked)
            own_server.kill()
            with pytest.raises(UnansweredError, match="The connection was lost"):
                await asked
            assert not world.api.link._asked

    run(work())


def test_what_was_not_sent_when_the_connection_was_lost_is_not_sent_later(run, own_server):
    async def work():
        async with world_of(own_server) as world:
            await world.stream("S", [b"1"])
            link = world.api.link
            waiting = b"PUB S.a 1\r\n2\r\n"  # as it is left by who asks in that moment
            link.client._pending.append(waiting)
            link.client._pending_data_size += len(waiting)
            own_server.kill()
            await until(lambda: not link.state.is_connected)
            await asyncio.to_thread(own_server.start)
            await until(lambda: link.state.is_connected)
            # Whoever asks again after a look has it once.
            assert (await publish(link, "S.a", b"2", {})).sequence == 2
            state = (await world.api.ask("STREAM.INFO.S"))["state"]
            assert state["messages"] == 2

    run(work())


def test_a_connection_that_the_server_ends_is_made_anew(run, connected, server):
    async def work():
        async with connected() as world:
            link = world.console.link
            first, heard = link.client, []
            listening = await link.listen("news", lambda *each: heard.append(each))
            first._transport.write(b"PUB " + b"s" * 5_000 + b" 0\r\n\r\n")
            while link.client is first or not link.state.is_connected:
                await asyncio.sleep(0.01)
            assert not listening.is_open
            await listening.close()
            assert b'"streams"' in await link.request("$JS.API.INFO")

    run(work())


def test_who_stops_listening_before_it_has_begun_ends_nothing_else(run, connected):
    """nats-py reads no more once an answer comes to a ping for which nobody waits any more."""

    async def work():
        async with connected() as world:
            link = world.console.link
            listened = set(link.client._subs)
            listening = asyncio.create_task(link.listen("news", print))
            while not link.client._pongs:
                await asyncio.sleep(0)  # and no longer, or the answer is there
            listening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listening
            await until(lambda: set(link.client._subs) == listened)
            for _ in range(3):
                await world.console.api.ask("INFO")

    run(work())


def test_who_hears_nothing_about_listening_gives_it_up_and_ends_nothing_else(run, connected):
    async def work():
        async with connected(request_timeout_s=0.2) as world:
            link = world.console.link
            listened = set(link.client._subs)
            first = asyncio.get_running_loop().create_future()
            link.client._pongs.append(first)  # it takes the answer
            with pytest.raises(UnansweredError, match=r"no answer within 0.2 s"):
                await link.listen("news", print)
            assert set(link.client._subs) == listened
            await first
            link.target = dataclasses.replace(link.target, request_timeout_s=60)
            await link.client._send_ping()  # whose answer is for who has given it up
            await world.console.api.ask("INFO")

    run(work())


def test_what_is_listened_to_is_handed_over_until_it_is_closed(run, connected):
    async def work():
        async with connected() as world:
            link, heard = world.console.link, []
            listening = await link.listen("news.*", lambda *each: heard.append(each))
            await world.client.publish("news.a", b"\xff")
            while not heard:
                await asyncio.sleep(0.001)
            assert heard == [("news.a", b"\xff")] and listening.is_open
            await listening.close()
            await listening.close()
            await world.client.publish("news.a", b"late")
            await world.settle()
            await link.client.flush()
            assert len(heard) == 1 and not listening.is_open
            with pytest.raises(UnreachableError):
                await link.listen("a b", print)
            await link.close()
            with pytest.raises(UnreachableError, match="no connection"):
                await link.listen("news", print)
        async with connected(user="few") as world:
            before = {*world.console.link.client._subs}
            with pytest.raises(RefusedError, match='ermissions violation for subscription to "ne'):
                await world.console.link.listen("news.*", print)
            assert {*world.console.link.client._subs} == before
            assert world.console.link._asked == {}
            assert b'"streams"' in await world.console.link.request("$JS.API.INFO")

    run(work())


def test_a_server_that_is_not_there_yet_is_waited_for(run):
    async def work():
        link = ServerLink(Target(("nats://127.0.0.1:1",)))
        link.open()
        while "Connect call failed" not in link.state.words:
            await asyncio.sleep(0.01)
        await link.close()

    run(work())


@pytest.mark.parametrize("kind", ["bundled", "genuine"])
def test_a_key_over_tls_in_a_domain(run, served, pki, other_pki, tmp_path, kind):
    public = nkeys.from_seed(seed("console").encode()).public_key.decode()
    config = GUARDED.replace("$NKEY", public).replace("$CA", pki.cert("ca"))
    config = config.replace("$CERT", pki.cert("server")).replace("$KEY", pki.key("server"))
    port = served(kind, config).port
    nkey = tmp_path / "console.nk"
    nkey.write_text(seed("console"))
    good = {
        "nkey": str(nkey),
        "tls_ca": pki.cert("ca"),
        "tls_cert": pki.cert("client"),
        "tls_key": pki.key("client"),
    }

    async def pieces():
        yield b"content"

    async def work():
        async with linked(port, "tls", **good, domain="hub") as link:
            await until(lambda: link.state.is_connected)
            api = Api(link)
            assert (await api.ask("INFO"))["domain"] == "hub"
            made = {"name": "KV_B", "subjects": ["$KV.B.>"], "max_msgs_per_subject": 1}
            await api.ask("STREAM.CREATE.KV_B", made)
            [bucket] = (await all_buckets(api)).rows
            assert await EntryWriter(api, bucket).create("k", b"v") == 1
            assert (await EntryReader(api, bucket).latest("k")).message.payload == b"v"
            made = {"name": "OBJ_O", "subjects": ["$O.O.>"], "allow_rollup_hdrs": True}
            await api.ask("STREAM.CREATE.OBJ_O", made)
            [store] = (await all_stores(api)).rows
            writer = ObjectWriter(api, store, Leftovers(api))
            await writer.put("a", pieces(), None, lambda done: None)
            info = (await ObjectReader(api, store).find_named("a")).info
            assert [each async for each in ObjectReader(api, store).content(info)] == [b"content"]
        async with linked(port, "tls", **good, domain="other") as link:
            await until(lambda: link.state.is_connected)
            with pytest.raises(UnreachableError, match=r"Nobody listens to '\$JS.other.API.INFO'"):
                await Api(link).ask("INFO")
        async with linked(port, "tls", **good | {"tls_ca": other_pki.cert("ca")}) as link:
            await until(lambda: "certificate verify failed" in link.state.words)
        async with linked(port, **good | {"tls_cert": "", "tls_key": ""}) as link:
            await until(lambda: link.state.words != "No server has answered yet.")
            assert not link.state.is_connected
        async with linked(port, "tls", **good | {"tls_ca": "/none"}) as link:
            await until(lambda: "No such file" in link.state.words)
        other = tmp_path / "other.nk"
        other.write_text(seed("other"))
        async with linked(port, "tls", **good | {"nkey": str(other)}) as link:
            await until(lambda: "authorization violation" in link.state.words.lower())

    run(work())


@pytest.mark.parametrize("kind", ["bundled", "genuine"])
def test_a_credentials_file_and_what_is_none(run, served, tmp_path, kind):
    config = credentials.operator_config()
    port = served(kind, config.replace("jetstream {", 'jetstream { store_dir: "$STORE",')).port
    good, wrong, odd = tmp_path / "good", tmp_path / "wrong", tmp_path / "odd"
    good.write_text(CREDENTIALS % (credentials.users()["tiers"], seed("tiers")))
    wrong.write_text(CREDENTIALS % (credentials.users()["tiers"], seed("flat")))
    odd.write_text("nothing of the kind")

    async def work():
        async with linked(port, creds=str(good)) as link:
            await until(lambda: link.state.is_connected)
            assert "tiers" in await Api(link).ask("INFO")
        async with linked(port, creds=str(wrong)) as link:
            await until(lambda: "authorization violation" in link.state.words.lower())
        for path in (odd, tmp_path / "none"):
            async with linked(port, creds=str(path)) as link:
                while link.state.words == "No server has answered yet.":
                    await asyncio.sleep(0.01)
                assert not link.state.is_connected and seed("tiers") not in link.state.words

    run(work())


@pytest.mark.parametrize("kind", ["bundled", "genuine"])
def test_a_token_and_a_secret_that_cannot_be_read(run, served, monkeypatch, kind):
    port = served(kind, TOKEN).port
    monkeypatch.setenv("CONSOLE_TOKEN", "t0ps3cret")
    monkeypatch.delenv("NONE", raising=False)

    async def work():
        async with linked(port, token=Secret("env:CONSOLE_TOKEN")) as link:
            await until(lambda: link.state.is_connected)
        async with linked(port, token=Secret("env:NONE")) as link:
            await until(lambda: "NONE" in link.state.words)
            assert not link.state.is_connected

    run(work())


def test_no_place_shows_a_secret():
    target = Target(("nats://me:secret@host:1", "other", "tls://[::1]:2", "nats://x:99999"))
    assert target.places == ("host:1", "other:4222", "[::1]:2", "x:4222")
    assert Target((), domain="hub").api_prefix == "$JS.hub.API"


def test_a_link_that_is_closed_tries_no_further_to_connect(run):
    async def work():
        before = asyncio.all_tasks()
        for is_begun in (False, True):
            link = ServerLink(Target(("nats://127.0.0.1:1",)))
            link.open()
            while is_begun and "Connect call failed" not in link.state.words:
                await asyncio.sleep(0.01)
            await link.close()
            assert asyncio.all_tasks() == before
        await ServerLink(Target(("nats://127.0.0.1:1",))).close()

    run(work())


def test_a_link_that_is_closed_has_ended_its_connection(run, connected):
    async def work():
        async with connected() as world:
            client = world.console.link.client
            assert client.is_connected
        assert client.is_closed

    run(work())
