"""Traffic adds up."""

from jetstream_server.node.stats import Traffic


def test_add():
    total = Traffic(1, 10, 2, 20)
    total.add(Traffic(1, 1, 1, 1))
    assert total == Traffic(2, 11, 3, 21)
    total.subtract(Traffic(2, 1, 3, 1))
    assert total == Traffic(0, 10, 0, 20)
