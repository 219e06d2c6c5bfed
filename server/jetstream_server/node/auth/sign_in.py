"""Who a client says it is: from its CONNECT on the wire to a user, or to the reason why it may not
connect."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from jetstream_server.node.auth.auth import Gatekeeper, SignInFacts, User
from jetstream_server.node.auth.connect_options import Wishes, is_well_typed, known, without_nulls
from jetstream_server.node.auth.password_check import PasswordChecker
from jetstream_server.node.auth.password_inquiry import PasswordInquiry
from jetstream_server.node.listener import Listener
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault


class SignIn:
    """How one client signs in.

    Args:
        host: of the client.
        listener: the listener by which it came.
        nonce: what it has to sign, where it has a key.
        compared: called when a password that took time has been compared.

    Attributes:
        options: the fields of CONNECT.
        wishes: what they say about the conversation.
        credentials: fields that were given below CONNECT, for those that it lacks.
        certificate_names: what the client's certificate calls it, where that decides.
    """

    def __init__(
        self, host: str, listener: Listener, nonce: str, compared: Callable[[], None]
    ) -> None:
        self._host = host
        self._listener = listener
        self.nonce = nonce
        self._inquiry = PasswordInquiry(host, compared)
        self.options: dict[str, Any] = {}
        self.wishes = Wishes()
        self.credentials: dict[str, str] = {}
        self.certificate_names: list[str] | None = None

    @property
    def is_waiting(self) -> bool:
        """Return whether a password is being compared."""
        return self._inquiry.is_open

    @property
    def asked_at(self) -> int:
        """Return when a password was last given to be compared."""
        return self._inquiry.asked_at

    @property
    def is_answered(self) -> bool:
        """Return whether one was compared, and CONNECT has yet to be acted on once more."""
        return self._inquiry.is_answered

    @property
    def has_signature(self) -> bool:
        """Return whether the client says who it is by what takes long to be looked at."""
        return bool(self.options.get("jwt") or self.options.get("nkey"))

    def hear(self, given: dict[str, Any], *, has_headers: bool) -> Fault | None:
        """Take the fields of a CONNECT; return what is wrong with them.

        Args:
            has_headers: the server lets clients use headers.
        """
        options = self.options = without_nulls(self.options | known(given))
        options |= {name: text for name, text in self.credentials.items() if not options.get(name)}
        if not is_well_typed(options):
            return faults.MALFORMED
        self.wishes = Wishes.of(options, has_headers=has_headers)
        return None if self.wishes.protocol in (0, 1) else faults.INVALID_CLIENT_PROTOCOL

    def decide(
        self, authenticator: Gatekeeper, checker: PasswordChecker, now: int
    ) -> User | Fault | None:
        """Return who the client is, or why it may not connect; None while that takes time."""
        options = self.options
        facts = SignInFacts(
            self.nonce, self._listener.connection_type, self.certificate_names, self._host, now
        )
        self._inquiry.ask(authenticator.question(options, facts), checker, now)
        if self._inquiry.is_open:
            return None
        facts = dataclasses.replace(facts, is_password_right=self._inquiry.take())
        user = authenticator.authenticate(options, facts)
        if user is None or options.get("account") or options.get("new_account"):
            return faults.AUTHORIZATION_VIOLATION
        if self.wishes.no_responders and not self.wishes.headers:
            return faults.NO_RESPONDERS_NEEDS_HEADERS
        return user

    def forget(self, checker: PasswordChecker) -> None:
        """No longer wait for an answer."""
        self._inquiry.forget(checker)
