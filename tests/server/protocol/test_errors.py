"""The `-ERR` table: texts, and which of them end the connection."""

from __future__ import annotations

from jetstream_server.protocol import errors
from jetstream_server.protocol.errors import Fault
from jetstream_server.protocol.ops import Violation


def faults() -> dict[str, Fault]:
    return {name: held for name, held in vars(errors).items() if isinstance(held, Fault)}


def test_no_two_faults_are_the_same() -> None:
    assert len(set(faults().values())) == len(faults())


def test_what_keeps_the_connection() -> None:
    kept = {fault.text for fault in faults().values() if not fault.closes}
    assert kept == {
        "maximum subscriptions exceeded",
        "Invalid Subject",
        "Invalid Publish Subject",
    }


def test_what_closes_without_a_word() -> None:
    silent = {fault.reason for fault in faults().values() if not fault.text}
    assert silent == {
        "Authentication Failure",
        "Protocol Violation",
        "Parse Error",
        "Slow Consumer (Pending Bytes)",
        "Slow Consumer (Write Deadline)",
    }


def test_permission_texts() -> None:
    assert errors.publish_denied(b"a.b").text == 'Permissions Violation for Publish to "a.b"'
    assert (
        errors.reply_denied(b"$JS.ACK.x").text
        == 'Permissions Violation for Publish with Reply of "$JS.ACK.x"'
    )
    assert errors.subscription_denied(b"a").text == 'Permissions Violation for Subscription to "a"'
    assert (
        errors.subscription_denied(b"a", b"_sys_").text
        == 'Permissions Violation for Subscription to "a" using queue "_sys_"'
    )
    assert (
        errors.subscription_denied(b"a", b"q", b"7").text
        == 'Permissions Violation for Subscription to "a" using queue "q" (sid "7")'
    )
    assert (
        errors.too_many_tokens(b"a.b.c").text
        == 'Permissions Violation for Subscription to "a.b.c", too many tokens'
    )
    assert not errors.publish_denied(b"a").closes


def test_a_fault_as_op_and_as_exception() -> None:
    fault = errors.CONTROL_LINE_EXCEEDED
    assert fault.violation() == Violation(
        "maximum control line exceeded", "Maximum Control Line Exceeded"
    )
    error = fault.error()
    assert (error.text, error.closes, error.reason) == (fault.text, True, fault.reason)
    assert not errors.INVALID_SUBJECT.error().closes
