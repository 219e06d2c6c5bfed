"""Advisories of snapshots and restores: fields and their order."""

from __future__ import annotations

import json

from jetstream_server.jetstream.snapshots.snapshot_advisory import TransferAdvisories


def test_fields_in_order(transfers) -> None:
    heard = transfers.listen(b"$JS.EVENT.ADVISORY.STREAM.>")
    advisories = TransferAdvisories(transfers.context, "snapshot", "S", heard, transfers.now)
    advisories.created(transfers.now, state={"messages": 1})
    advisories.completed(transfers.now + 5)
    restored = TransferAdvisories(transfers.context, "restore", "S", None, transfers.now)
    restored.completed(transfers.now, bytes=12)
    transfers.turn()
    (made, _, _, first), (done, _, _, second), (over, _, _, third) = heard.received
    assert made == b"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_CREATE.S"
    assert done == b"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S"
    assert over == b"$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.S"
    head = ["type", "id", "timestamp", "stream"]
    assert list(json.loads(first)) == [*head, "state", "client"]
    assert list(json.loads(second)) == [*head, "start", "end", "client"]
    assert json.loads(second)["start"] == "2023-11-14T22:13:20Z"
    assert json.loads(second)["end"] == "2023-11-14T22:13:20.000000005Z"
    assert list(json.loads(third)) == [*head, "start", "end", "bytes"]
    assert json.loads(third)["type"] == "io.nats.jetstream.advisory.v1.restore_complete"


def test_nothing_without_listeners(transfers) -> None:
    TransferAdvisories(transfers.context, "snapshot", "S", None, 0).created(0)
    assert not transfers.output.sends_after_flush
