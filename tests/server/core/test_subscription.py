"""A subscription as it is made."""

from typing import Any

from jetstream_server.core.subscription import Subscription, ops_of

NOBODY: Any = None


def test_a_new_subscription_is_plain_open_and_undelivered() -> None:
    sub = Subscription(b"a.*", NOBODY, sid=b"1")
    assert (sub.subject, sub.queue, sub.sid) == (b"a.*", b"", b"1")
    assert (sub.delivered, sub.max_messages, sub.closed) == (0, 0, False)
    assert sub.outlet is None


def test_its_text_names_what_it_is_for_and_not_the_client() -> None:
    sub = Subscription(b"a.*", NOBODY, queue=b"q", sid=b"7")
    assert repr(sub) == "Subscription(b'a.*', queue=b'q', sid=b'7')"


def test_long_subjects_and_imports_count_as_more_operations() -> None:
    assert ops_of(b"orders.new", 0) == 0
    assert ops_of(b"a" * 640, 0) == 10
    assert ops_of(b"a" * 640, 7) == 17
