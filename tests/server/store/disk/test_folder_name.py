"""Names of folders."""

from __future__ import annotations

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.folder_name import from_name, to_name


@pytest.mark.parametrize(
    "name", ["ORDERS", "$G", "a b", "a%2f", "../x", "a/b\\c", "naïve", "..", "\t"]
)
def test_names_come_back_and_stay_in_their_folder(name):
    folder = to_name(name)
    assert from_name(folder) == name
    assert "/" not in folder
    assert not folder.startswith(".")


def test_too_long_a_name():
    with pytest.raises(StoreError, match="more than 255 bytes"):
        to_name("ü" * 200)
