"""A client with a credentials file, as the tools for NATS write them, on either server."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import sys
from pathlib import Path

import nkeys
import pytest
from nats.errors import Error

from tests import patient_client

ROOT = Path(__file__).parents[2]

CREDENTIALS = """\
-----BEGIN NATS USER JWT-----
%s
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
%s
------END USER NKEY SEED------
"""


@pytest.fixture(scope="module")
def credentials():
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module("tests.parity.credentials")


def seed(name: str) -> str:
    """The secret of a user of `credentials.py`."""
    raw = hashlib.sha256(f"user {name}".encode()).digest()
    return nkeys.encode_seed(raw, nkeys.PREFIX_BYTE_USER).decode()


def test_a_credentials_file(serve, credentials, tmp_path):
    config = credentials.operator_config().replace(
        "jetstream {", 'jetstream { store_dir: "$STORE",'
    )
    url = f"nats://127.0.0.1:{serve(config).port}"
    good, bad = tmp_path / "good.creds", tmp_path / "bad.creds"
    good.write_text(CREDENTIALS % (credentials.users()["tiers"], seed("tiers")))
    bad.write_text(CREDENTIALS % (credentials.users()["tiers"], seed("flat")))

    async def main() -> None:
        client = await patient_client.connect(url, user_credentials=str(good))
        js = client.jetstream()
        info = await js.account_info()
        assert info.tiers is not None and info.tiers["R1"].limits.max_streams == 2
        await js.add_stream(name="S", subjects=["s"], max_bytes=1000)
        assert (await js.publish("s", b"x")).seq == 1
        await client.close()
        with pytest.raises(Error, match=r"(?i)authorization violation"):
            await patient_client.connect(url, user_credentials=str(bad), allow_reconnect=False)

    asyncio.run(main())
