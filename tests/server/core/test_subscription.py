"""A subscription as it is made."""

from typing import Any

from jetstream_server.core.subscription import Subscription

NOBODY: Any = None


def test_a_new_subscription_is_plain_open_and_undelivered() -> None:
    sub = Subscription(b"a.*", NOBODY, sid=b"1")
    assert (sub.subject, sub.queue, sub.sid) == (b"a.*", b"", b"1")
    assert (sub.delivered, sub.max_messages, sub.closed) == (0, 0, False)
    assert sub.outlet is None


def test_its_text_names_what_it_is_for_and_not_the_client() -> None:
    sub = Subscription(b"a.*", NOBODY, queue=b"q", sid=b"7")
    assert repr(sub) == "Subscription(b'a.*', queue=b'q', sid=b'7')"
