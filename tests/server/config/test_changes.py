"""What a configuration that is read again may change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from jetstream_server.base.clock import MINUTE, SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.changes import changes
from jetstream_server.config.options import (
    AccountJetStreamOptions,
    AccountOptions,
    ImportOptions,
    JetStreamOptions,
    ServerOptions,
    TlsOptions,
    UserOptions,
)

OLD = ServerOptions()


def test_nothing_changed():
    assert changes(OLD, OLD) == []
    users = replace(OLD, accounts=(AccountOptions("A", (UserOptions("a", "x"),)),))
    assert changes(users, users) == ["authorization users", "accounts"]


def test_what_is_taken_is_said():
    new = replace(
        OLD, is_debugging=True, max_payload=5000, ping_interval_ns=MINUTE, server_tags=("a",)
    )
    assert changes(OLD, new) == [
        "tags",
        "debug = true",
        "max_payload = 5000",
        "ping_interval = 1m0s",
    ]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"max_subscriptions": 50}, "MaxSubs: old=0, new=50"),
        ({"max_subject_tokens": 5}, "MaxSubTokens: old=0, new=5"),
        ({"server_name": "x"}, "ServerName: old=, new=x"),
        ({"has_headers": False}, "NoHeaderSupport: old=false, new=true"),
        ({"lame_duck_duration_ns": 40 * SECOND}, "LameDuckDuration: old=2m0s, new=40s"),
        ({"is_plain_allowed": True}, "AllowNonTLS: old=false, new=true"),
        ({"no_auth_user": "a"}, "NoAuthUser: old=, new=a"),
        ({"system_account": "A"}, "SystemAccount: old=$SYS, new=A"),
        ({"jetstream": JetStreamOptions(encryption_key="secret")}, "JetStream; restart the server"),
    ],
)
def test_what_is_not(changed, text):
    with pytest.raises(ConfigError) as caught:
        changes(OLD, replace(OLD, **changed))
    assert str(caught.value) == f"config reload not supported for {text}"


def test_tls_may_come_change_and_go():
    tls = TlsOptions("cert", "key")
    assert changes(OLD, replace(OLD, tls=tls)) == ["tls = enabled"]
    assert changes(replace(OLD, tls=tls), OLD) == ["tls = disabled"]
    later = replace(tls, timeout_ns=1_500_000_000, greets_after_ns=-1)
    said = ["tls timeout = 1.5", "Client TLS handshake first: true"]
    assert changes(replace(OLD, tls=tls), replace(OLD, tls=later)) == said
    verifying = replace(tls, is_verifying=True)
    assert changes(replace(OLD, tls=tls), replace(OLD, tls=verifying)) == ["tls = enabled"]
    pinned = replace(tls, pinned_certs=("ab",))
    assert changes(replace(OLD, tls=tls), replace(OLD, tls=pinned)) == [
        "tls = enabled",
        "1 pinned_certs",
    ]


def test_streams_are_not_taken_away():
    old = replace(OLD, accounts=(AccountOptions("A", jetstream=AccountJetStreamOptions()),))
    for accounts in ((), (AccountOptions("A"),)):
        with pytest.raises(ConfigError, match='removing JetStream from account "A"'):
            changes(old, replace(OLD, accounts=accounts))
    assert changes(replace(OLD, accounts=(AccountOptions("A"),)), old) == ["accounts"]


def test_an_api_is_not_exchanged():
    old = replace(OLD, accounts=(AccountOptions("A"),))
    entry = ImportOptions("service", "B", "$JS.API.>")
    with pytest.raises(ConfigError, match="importing"):
        changes(old, replace(OLD, accounts=(AccountOptions("A", imports=(entry,)),)))
