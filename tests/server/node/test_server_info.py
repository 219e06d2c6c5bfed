"""How the server introduces itself."""

from __future__ import annotations

import dataclasses

from jetstream_server.config.options import JetStreamOptions
from jetstream_server.node.server_info import server_info

from tests.server.node.conftest import OPTIONS, START


def test_every_one_has_the_next_number(make_node):
    options = dataclasses.replace(
        OPTIONS,
        server_tags=("blue",),
        server_metadata={"a": "b"},
        jetstream=JetStreamOptions(is_enabled=True),
    )
    node = make_node(options=options)
    first, second = server_info(node, START), server_info(node, START)
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
