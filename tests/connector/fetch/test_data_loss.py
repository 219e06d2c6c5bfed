"""Each way to lose messages has its own name."""

from __future__ import annotations

import pytest

from jetstream_spark.fetch.data_loss import find_loss
from jetstream_spark.fetch.tail import Tail
from jetstream_spark.options.offsets import StreamOffset


@pytest.mark.parametrize(
    ("tail", "condition"),
    [
        (Tail("t", 1, 100), None),
        (Tail("t", 50, 50), None),
        (Tail("t", 50, 60), None),
        (Tail("t", 51, 60), "MESSAGES_EXPIRED"),
        (Tail("t", 1, 49), "STREAM_TRUNCATED"),
        (Tail("t2", 1, 100), "STREAM_RECREATED"),
        (Tail("t2", 1, 100, is_copy=True), "STREAM_RESTORED"),
        (Tail("t", 1, 100, is_copy=True), None),
        (Tail("t", 51, 60, is_consumed=True), "MESSAGES_ALREADY_ACKNOWLEDGED"),
        (Tail("t", 50, 60, is_consumed=True), None),
        (None, "STREAM_DELETED"),
    ],
)
def test_conditions(tail, condition):
    loss = find_loss("ORDERS", StreamOffset("t", 50), tail)
    assert (loss.condition if loss else None) == condition
    if loss is not None:
        assert str(loss).startswith(f"[{condition}] ")
        assert "ORDERS" in str(loss) and "failOnDataLoss=false" in str(loss)
