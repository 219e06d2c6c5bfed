"""The server as it shows itself, from a browser to both servers."""

from __future__ import annotations


def text(user, marker: str) -> str:
    return "".join(each.text for each in user.find(marker).elements)


def test_configuration_user_and_account_without_secrets(run, browse):
    async def work():
        async with browse() as (user, world):
            varz = await world.console.monitor.varz()
            evil = {"cluster": {"urls": ["nats://a:hidden@b"], "password": "hidden"}}

            async def told():
                return {**varz, **evil, "server_name": "<script>"}

            world.console.monitor.varz = told
            await user.open("/server")
            await user.should_see("varz", retries=50)
            shown = text(user, "varz")
            assert '"max_payload": 16777216' in shown and '"server_name": "<script>"' in shown
            assert "hidden" not in shown and "nats://(not shown)@b" in shown
            await user.should_see("everything")
            user.find("Show account").click()
            await user.should_see("account-detail", retries=50)
            assert '"account_name": "$G"' in text(user, "account-detail")
            user.find("which").clear().type("none").trigger("keydown.enter")
            await user.should_see("status 400", retries=50)

    run(work())


def test_without_monitoring_or_permission_it_says_so(run, browse):
    async def work():
        async with browse(user="few", monitor="") as (user, _):
            await user.open("/server")
            await user.should_see("start with --monitor")
            await user.should_see("ermissions violation for publish", retries=50)

    run(work())
