"""CONNECT fields from credentials."""

from __future__ import annotations

import base64

import nkeys
import pytest

from jetstream_spark.client.handshake import connect_fields, tls_context
from jetstream_spark.errors import AuthenticationFailedError, SecretUnreadableError
from jetstream_spark.options.connection_options import read_connection_options
from jetstream_spark.options.option_map import OptionMap

SEED = nkeys.encode_seed(b"0123456789abcdef0123456789abcdef", nkeys.PREFIX_BYTE_USER).decode()


def connection(**options):
    return read_connection_options(OptionMap({"servers": "h", **options}))


def fields(nonce="abc", **options):
    return connect_fields(connection(**options), {"nonce": nonce}, "name", False)


def check_signature(found):
    pair = nkeys.from_seed(SEED.encode())
    assert found["nkey"] == pair.public_key.decode()
    signature = base64.urlsafe_b64decode(found["sig"] + "==")
    assert pair.verify(b"abc", signature)


def test_without_credentials():
    found = fields()
    assert found["headers"] and found["no_responders"] and not found["verbose"]
    assert not {"user", "auth_token", "nkey", "jwt"} & set(found)


def test_password_and_token(monkeypatch):
    monkeypatch.setenv("JETSTREAM_TEST_PASSWORD", "p")
    found = fields(user="u", password="env:JETSTREAM_TEST_PASSWORD")
    assert (found["user"], found["pass"]) == ("u", "p")
    assert fields(token="t")["auth_token"] == "t"


def test_an_nkey_signs_the_nonce(tmp_path):
    check_signature(fields(nkeySeedSecret=SEED))
    (tmp_path / "seed").write_text(SEED + "\n")
    check_signature(fields(nkeyFile=str(tmp_path / "seed")))
    assert "sig" not in fields(nonce="", nkeySeedSecret=SEED)


def test_creds_have_two_blocks(tmp_path):
    creds = (
        "-----BEGIN NATS USER JWT-----\neyJ.abc-_.x\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n"
        f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
    )
    (tmp_path / "creds").write_text(creds)
    for options in ({"credsFile": str(tmp_path / "creds")}, {"credsSecret": creds}):
        found = fields(**options)
        assert found["jwt"] == "eyJ.abc-_.x"
        check_signature(found)


def test_a_bad_seed_is_not_shown():
    for option in ("nkeySeedSecret", "credsSecret"):
        with pytest.raises(AuthenticationFailedError) as raised:
            fields(**{option: "SUhunter2"})
        assert "hunter2" not in str(raised.value) and option in str(raised.value)


def test_tls_files_that_cannot_be_read(tmp_path):
    with pytest.raises(SecretUnreadableError, match="PEM"):
        tls_context(connection(tlsCaFile=str(tmp_path / "none.pem")))
