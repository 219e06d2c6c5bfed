import base64

import nkeys
import pytest
from jetstream_server.base.nkey import ACCOUNT, OPERATOR, USER, decoded, is_public_key, is_signed

SEED = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
PAIR = nkeys.from_seed(SEED)
KEY = PAIR.public_key.decode()


def test_a_key_has_a_kind_and_a_checksum():
    assert is_public_key(KEY, USER) and is_public_key(KEY, ACCOUNT, USER)
    assert not is_public_key(KEY, ACCOUNT) and not is_public_key(KEY, OPERATOR)
    changed = KEY[:-1] + ("A" if KEY[-1] != "A" else "B")
    for text in ("", "U", KEY[:-1], KEY + "A", changed, KEY.lower(), "U" + "1" * 55):
        assert not is_public_key(text, USER)


def test_signatures_of_either_alphabet():
    raw = PAIR.sign(b"data")
    for signature in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
        assert is_signed(KEY, signature.decode(), b"data")
        assert is_signed(KEY, signature.decode().rstrip("="), b"data")
        assert not is_signed(KEY, signature.decode(), b"other")


@pytest.mark.parametrize("signature", ["", "!", "AAAA", "Ä"])
def test_what_is_no_signature(signature):
    assert not is_signed(KEY, signature, b"data")


def test_base64_is_read_with_and_without_padding():
    assert decoded("YQ") == decoded("YQ==") == b"a"
    with pytest.raises(ValueError):
        decoded("Y")
