"""Trees of the sources are kept as long as tests of this folder run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture import sources


@pytest.fixture(scope="package", autouse=True)
def trees() -> Iterator[None]:
    yield
    sources.forget()
