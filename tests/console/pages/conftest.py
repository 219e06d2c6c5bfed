"""Pages are looked at by browsers that are played, which speak no TLS."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def one_authority(pki: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each of them read one certificate, and not those of all the world's authorities, which
    takes longer than many a page."""
    monkeypatch.setenv("SSL_CERT_FILE", pki.cert("ca"))
