"""The configs of streams by name: as they are when somebody asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jetstream_server.jetstream.catalog.configs_of import ConfigsOf
from jetstream_server.jetstream.configs.stream_config import StreamConfig


def test_what_comes_goes_and_changes_is_seen() -> None:
    streams: dict[str, Any] = {}
    configs = ConfigsOf(streams)
    assert (len(configs), list(configs), "A" in configs) == (0, [], False)
    streams["A"] = SimpleNamespace(config=StreamConfig(name="A"))
    assert (len(configs), list(configs)) == (1, ["A"])
    streams["A"].config = changed = StreamConfig(name="A", max_msgs=7)
    assert configs["A"] is changed
    assert configs.get("B") is None
