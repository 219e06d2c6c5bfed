"""Views of any length are the same JSON, however many steps they take."""

from __future__ import annotations

import pytest
from jetstream_server.core.steps import without_pauses
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.monitor import long_view
from jetstream_server.monitor.long_view import encode_indented


@pytest.mark.parametrize("count", [0, 1, 7, 8, 20, 21])
@pytest.mark.parametrize("entry", [{"a": "x > []\n}", "b": [1, {}]}, 5, "[", []])
def test_it_is_what_one_step_would_make(monkeypatch, count, entry):
    monkeypatch.setattr(long_view, "ENTRIES_AT_ONCE", 7)
    view = {"first": [1, 2], "text": "<", "last": [entry] * count}
    steps = list(encode_indented(view))
    assert len(steps) == (-(-count // 7) if count > 7 else 0)
    assert without_pauses(encode_indented(view)) == encode(view, indented=True)
    other = {**view, "after": 1}
    assert without_pauses(encode_indented(other)) == encode(other, indented=True)
    assert without_pauses(encode_indented({})) == b"{}"
