"""Every `-ERR` a client can meet: its exact text, and the close reason when it ends the connection.

Texts and closes as probed on nats-server 2.15.1 (docs/reference/protocol.md#errors); clients match
on them. An empty text closes without a word, which is how malformed arguments end. Reasons are what
monitoring and disconnect advisories show.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.base.errors import ProtocolError
from jetstream_server.protocol.ops import Violation

PERMISSIONS_VIOLATION = "Permissions Violation"


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which a client can be refused.

    Attributes:
        text: what goes between the quotes of `-ERR '...'`; empty sends nothing.
        reason: the close reason; empty keeps the connection.
    """

    text: str
    reason: str = ""

    @property
    def closes(self) -> bool:
        """Whether the connection ends."""
        return bool(self.reason)

    def violation(self) -> Violation:
        """Return it as the op that ends a parse."""
        return Violation(self.text, self.reason)

    def error(self) -> ProtocolError:
        """Return it as an exception, for code that cannot hand back a value."""
        return ProtocolError(self.text, closes=self.closes, reason=self.reason or self.text)


# From the parser.
UNKNOWN_OPERATION = Fault("Unknown Protocol Operation", "Protocol Violation")
MALFORMED = Fault("", "Protocol Violation")
CLIENT_SENT_ERROR = Fault("", "Parse Error")
CONTROL_LINE_EXCEEDED = Fault("maximum control line exceeded", "Maximum Control Line Exceeded")
PAYLOAD_EXCEEDED = Fault("Maximum Payload Violation", "Maximum Message Payload Exceeded")

# From the server itself, when it fails in a way that nobody foresaw.
INTERNAL = Fault("Internal Server Error", "Internal Server Error")

# From the handshake.
AUTHORIZATION_VIOLATION = Fault("Authorization Violation", "Authentication Failure")
AUTHENTICATION_TIMEOUT = Fault("Authentication Timeout", "Authentication Timeout")
INVALID_CLIENT_PROTOCOL = Fault("invalid client protocol", "Bad Client Protocol Version")
NO_RESPONDERS_NEEDS_HEADERS = Fault(
    "no responders requires headers support", "No Responders Requires Headers"
)
CONNECTIONS_EXCEEDED = Fault("maximum connections exceeded", "Maximum Connections Exceeded")
ACCOUNT_CONNECTIONS_EXCEEDED = Fault(
    "maximum account active connections exceeded", "Maximum Account Connections Exceeded"
)

# While connected.
USER_EXPIRED = Fault("User Authentication Expired", "Authentication Expired")
ACCOUNT_EXPIRED = Fault("Account Authentication Expired", "Authentication Expired")
USER_REVOKED = Fault("User Authentication Revoked", "Credentials Revoked")
SIGNING_KEY_GONE = Fault("", "Authentication Failure")
STALE_CONNECTION = Fault("Stale Connection", "Stale Connection")
SLOW_CONSUMER_PENDING_BYTES = Fault("", "Slow Consumer (Pending Bytes)")
SLOW_CONSUMER_WRITE_DEADLINE = Fault("", "Slow Consumer (Write Deadline)")
SUBSCRIPTIONS_EXCEEDED = Fault("maximum subscriptions exceeded")
SUBSCRIPTIONS_AT_LIMIT = Fault("maximum subscriptions exceeded", "Maximum Subscriptions Exceeded")
INVALID_SUBJECT = Fault("Invalid Subject")
INVALID_PUBLISH_SUBJECT = Fault("Invalid Publish Subject")


def _text(raw: bytes) -> str:
    # surrogateescape carries any bytes through to `encoder.err` unchanged.
    return raw.decode("utf-8", "surrogateescape")


def publish_denied(subject: bytes) -> Fault:
    """Return the fault of a publish to a subject that is not allowed."""
    return Fault(f'{PERMISSIONS_VIOLATION} for Publish to "{_text(subject)}"')


def reply_denied(reply: bytes) -> Fault:
    """Return the fault of a publish whose reply is a reserved subject."""
    return Fault(f'{PERMISSIONS_VIOLATION} for Publish with Reply of "{_text(reply)}"')


def subscription_denied(subject: bytes, queue: bytes = b"", sid: bytes = b"") -> Fault:
    """Return the fault of a subscription that is not allowed.

    `sid` is given when a reload took away the permission of one that exists.
    """
    text = f'{PERMISSIONS_VIOLATION} for Subscription to "{_text(subject)}"'
    if queue:
        text += f' using queue "{_text(queue)}"'
    if sid:
        text += f' (sid "{_text(sid)}")'
    return Fault(text)


def too_many_tokens(subject: bytes) -> Fault:
    """Return the fault of a subscription deeper than `max_sub_tokens`."""
    return Fault(f'{PERMISSIONS_VIOLATION} for Subscription to "{_text(subject)}", too many tokens')
