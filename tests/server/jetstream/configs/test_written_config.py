"""A config is written when it is another one, and kept if it is short."""

from __future__ import annotations

import json

import pytest
from jetstream_server.jetstream.configs import written_config
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.configs.written_config import WrittenConfig
from jetstream_server.jetstream.wire.go_json import encode


@pytest.fixture
def written(monkeypatch):
    """Return what was written so far."""
    texts = []
    monkeypatch.setattr(
        written_config, "encode", lambda value: texts.append(encode(value)) or texts[-1]
    )
    return texts


def shown(kept, config):
    return json.loads(encode({"config": kept.of(config)}))["config"]


def test_a_config_is_written_once(written):
    kept, config = WrittenConfig(), StreamConfig(name="S", subjects=["a.>"], description="<&>")
    for _ in range(3):
        assert shown(kept, config) == json.loads(encode(config.to_wire()))
    assert len(written) == 1
    assert b"\\u003c\\u0026\\u003e" in encode({"config": kept.of(config)}), "as Go escapes it"


def test_another_config_is_another_text(written):
    kept = WrittenConfig()
    first = StreamConfig(name="S", subjects=["a.>"])
    changed = first.model_copy(update={"max_msgs": 5})
    assert shown(kept, first)["max_msgs"] == first.max_msgs
    assert shown(kept, changed)["max_msgs"] == 5
    assert shown(kept, first)["max_msgs"] == first.max_msgs
    assert len(written) == 3


def test_what_is_long_is_not_kept(written):
    kept, short = WrittenConfig(), StreamConfig(name="S", subjects=["a"])
    long = short.model_copy(update={"description": "x" * written_config.KEPT_BYTES_MAX})
    for _ in range(2):
        assert shown(kept, long)["description"] == long.description
    assert len(written) == 2
    assert "description" not in shown(kept, short)
