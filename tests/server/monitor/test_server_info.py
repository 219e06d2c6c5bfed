"""How the server introduces itself."""

from __future__ import annotations

from jetstream_server.monitor.server_info import server_info


def test_every_one_has_the_next_number(node, now):
    first, second = server_info(node, now), server_info(node, now)
    assert list(first) == [
        "name",
        "host",
        "id",
        "ver",
        "tags",
        "metadata",
        "feature_flags",
        "jetstream",
        "flags",
        "seq",
        "time",
    ]
    assert (first["id"], first["tags"], first["jetstream"]) == (node.server_id, ["blue"], True)
    assert second["seq"] == first["seq"] + 1
