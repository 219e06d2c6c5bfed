"""The types of what CONNECT says."""

from __future__ import annotations

import pytest
from jetstream_server.node.auth.connect_options import is_well_typed, without_nulls


def test_null_is_as_good_as_left_out():
    options = {"user": None, "verbose": True, "protocol": 1, "anything": []}
    assert is_well_typed(options)
    assert without_nulls(options) == {"verbose": True, "protocol": 1, "anything": []}


@pytest.mark.parametrize(
    "options", [{"user": 1}, {"verbose": "yes"}, {"protocol": True}, {"protocol": 1.5}, {"jwt": []}]
)
def test_another_type_is_refused(options):
    assert not is_well_typed(options)
