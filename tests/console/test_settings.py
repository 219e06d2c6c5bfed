"""The command line: what is wrong is said, and no secret is on it."""

from __future__ import annotations

import pytest
from jetstream_console.settings import is_loopback, read_settings


def test_by_default_it_shows_this_machine_to_this_machine():
    settings = read_settings([])
    assert (settings.host, settings.port, settings.is_writable) == ("127.0.0.1", 8322, False)
    assert settings.target.servers == ("nats://127.0.0.1:4222",)
    assert settings.target.password is None and settings.page_password is None


def test_everything_is_passed_on(monkeypatch):
    monkeypatch.setenv("P", "hidden")
    words = "--servers nats://a:1,tls://b:2 --user u --password env:P --tls-ca ca --domain hub"
    words += " --monitor http://a:8222 --host 0.0.0.0 --page-password env:P --writable --timeout 2"
    words += " --checkpoints c --events e"
    settings = read_settings(words.split())
    assert settings.target.servers == ("nats://a:1", "tls://b:2")
    assert (settings.target.user, settings.target.tls_ca, settings.target.domain) == (
        "u",
        "ca",
        "hub",
    )
    assert settings.target.password.resolve("password") == "hidden"
    assert "hidden" not in repr(settings)
    assert settings.is_writable and settings.target.request_timeout_s == 2
    assert (settings.checkpoints, settings.events) == ("c", "e")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--host 0.0.0.0", "give --page-password"),
        ("--host example.org", "give --page-password"),
        ("--password swordfish", "env:NAME or file:PATH"),
        ("--tls-key k", "of no use without --tls-cert"),
        ("--monitor ftp://a", "http://host:8222"),
        ("--timeout 0", "--timeout"),
        ("--serv nats://a", "unrecognized"),
    ],
)
def test_what_is_wrong_is_said(capsys, words, said):
    with pytest.raises(SystemExit) as caught:
        read_settings(words.split())
    told = capsys.readouterr().err
    assert caught.value.code == 2 and said in told and "swordfish" not in told


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("::", False)],
)
def test_which_addresses_are_this_machine(host, is_here):
    assert is_loopback(host) is is_here
