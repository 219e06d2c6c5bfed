"""What a user may publish and subscribe to, as a configuration file or a JWT says it."""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.base.clock import MINUTE


@dataclass(frozen=True, slots=True)
class SubjectPermissions:
    """What may be published, or subscribed to (`"subject queue"` limits a subscription's queue).

    Attributes:
        allow: None allows all that is not denied; an empty tuple allows nothing.
        deny: beats `allow`.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResponsePermissions:
    """How far replies to received messages are allowed; -1 messages means no limit."""

    max_messages: int = 1
    expires_ns: int = 2 * MINUTE


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a user may do."""

    publish: SubjectPermissions = SubjectPermissions()
    subscribe: SubjectPermissions = SubjectPermissions()
    responses: ResponsePermissions | None = None
