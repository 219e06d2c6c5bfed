"""The defaults, which are the genuine server's."""

import dataclasses

import pytest
from jetstream_server.base.clock import MINUTE, SECOND
from jetstream_server.config.options import AuthorizationOptions, ServerOptions, UserOptions


def test_defaults() -> None:
    options = ServerOptions()
    assert (options.host, options.port, options.http_port) == ("0.0.0.0", 4222, 0)
    assert (options.max_control_line, options.max_payload) == (4096, 1 << 20)
    assert (options.max_pending, options.max_connections) == (64 << 20, 65536)
    assert (options.ping_interval_ns, options.ping_max) == (2 * MINUTE, 2)
    assert options.write_deadline_ns == 10 * SECOND
    assert options.system_account == "$SYS"
    assert not options.jetstream.is_enabled
    assert options.jetstream.sync_interval_ns == 0


def test_options_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ServerOptions().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    "authorization",
    [
        AuthorizationOptions(user="a"),
        AuthorizationOptions(token="t"),
        AuthorizationOptions(users=(UserOptions("a", "b"),)),
    ],
)
def test_authorization_is_required(authorization: AuthorizationOptions) -> None:
    assert authorization.is_required
    assert not AuthorizationOptions().is_required
