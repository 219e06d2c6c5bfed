"""What a user may do, as an account claims it; also what a signing key's scope grants.

A limit of -1 means none; one that is not given is 0, which lets nothing through.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any, ClassVar

from pydantic import Field, field_validator

from jetstream_server.base import nkey
from jetstream_server.base.time_zone import find_zone
from jetstream_server.config.claims.token import ClaimInteger, Claims, SignedClaims
from jetstream_server.config.permissions import Permissions, ResponsePermissions, SubjectPermissions

_NETWORK = re.compile(r"[^/]+/[0-9]{1,3}")
_TIME = re.compile(r"([01]?\d|2[0-3]):[0-5]\d:[0-5]\d")


class SubjectClaims(Claims):
    """Subjects of one direction; if none are given, nothing is restricted."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is restricted."""
        return not self.allow and not self.deny

    def as_options(self) -> SubjectPermissions:
        """Return the same in the form in which it is configured."""
        return SubjectPermissions(self.allow or None, self.deny)


class ResponseClaims(Claims):
    """How far answers are allowed: messages, and nanoseconds."""

    max: ClaimInteger = 0
    ttl: ClaimInteger = 0


class PermissionClaims(Claims):
    """What may be published and subscribed to."""

    pub: SubjectClaims = SubjectClaims()
    sub: SubjectClaims = SubjectClaims()
    resp: ResponseClaims | None = None

    def as_options(self) -> Permissions | None:
        """Return the same as configured permissions, None where nothing is restricted."""
        if self.pub.is_empty and self.sub.is_empty and self.resp is None:
            return None
        publish, responses = self.pub.as_options(), None
        if self.resp is not None:
            # Zero stands for the default; without an allow list, only replies may be published.
            default = ResponsePermissions()
            responses = ResponsePermissions(
                self.resp.max or default.max_messages, self.resp.ttl or default.expires_ns
            )
            publish = SubjectPermissions(publish.allow or (), publish.deny)
        return Permissions(publish, self.sub.as_options(), responses)

    def bad_subject(self) -> str:
        """Return what is wrong with the first subject that can match nothing, empty if all can.

        Otherwise what is to be denied would not be.
        """
        published = [[subject] for subject in self.pub.allow + self.pub.deny]
        subscribed = [subject.split(" ", 1) for subject in self.sub.allow + self.sub.deny]
        for words in published + subscribed:  # a queue may stand behind what is subscribed to
            if any(" " in word or "" in word.split(".") for word in words):
                return f"invalid subject {' '.join(words)!r} in permissions"
        return ""


class TimeRange(Claims):
    """A part of each day, `HH:MM:SS`."""

    start: str = ""
    end: str = ""


class UserGrants(PermissionClaims):
    """Permissions and limits of a user.

    Attributes:
        src: networks from which it may connect; empty for any.
        times: when it may be connected; empty for always.
        locale: the zone of `times`; empty for UTC, `Local` for that of this machine.
        proxy_required: it may only connect by way of a trusted proxy, of which there are none here.
    """

    src: tuple[str, ...] = ()
    times: tuple[TimeRange, ...] = ()
    locale: str = Field(default="", alias="times_location")
    subs: ClaimInteger = 0
    data: ClaimInteger = 0
    payload: ClaimInteger = 0
    bearer_token: bool = False
    proxy_required: bool = False
    allowed_connection_types: tuple[str, ...] = ()

    @field_validator("src", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        """Networks are a list, or one text with commas."""
        if not isinstance(given, str):
            return given
        return [each.strip() for each in given.split(",")] if given else []

    def is_from(self, host: str) -> bool:
        """Tell whether it may connect from an address."""
        if not self.src:
            return True
        try:
            address = ip_address(host)
        except ValueError:
            return False
        return any(address in ip_network(each, strict=False) for each in self.src)

    def seconds_left(self, now_s: int) -> int | None:
        """Return for how many seconds from now it may be connected; None for ever, 0 for not at
        all."""
        if not self.times:
            return None
        local = datetime.fromtimestamp(now_s, find_zone(self.locale or "UTC"))
        for each in self.times:
            start, end = (_at(local, text) for text in (each.start, each.end))
            if start > end:  # over midnight
                if local < end:
                    start -= timedelta(days=1)
                else:
                    end += timedelta(days=1)
            if start <= local < end:
                return int((end - local).total_seconds())
        return 0

    def problem(self) -> str:
        """Return what makes no sense in it, empty if all does."""
        for network in self.src:
            try:
                if _NETWORK.fullmatch(network) is None:  # an address, or one with a mask
                    raise ValueError
                ip_network(network, strict=False)
            except ValueError:
                return f"invalid cidr {network!r} in user src limits"
        for each in self.times:
            if not (_TIME.fullmatch(each.start) and _TIME.fullmatch(each.end)):
                return f"time is not of the form HH:MM:SS: {each.start!r} to {each.end!r}"
        if self.locale and find_zone(self.locale) is None:
            return f"could not parse iana time zone {self.locale!r}"
        return ""


def _at(day: datetime, text: str) -> datetime:
    hour, minute, second = map(int, text.split(":"))
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0)


class _UserBody(UserGrants):
    issuer_account: str = ""
    tags: tuple[str, ...] = ()

    @property
    def grants_nothing(self) -> bool:
        """Tell whether everything is left to the scope of the signing key."""
        empty = UserGrants()
        return all(getattr(self, name) == getattr(empty, name) for name in UserGrants.model_fields)


class UserClaims(SignedClaims):
    """The JWT of a user."""

    KIND = "user"
    SUBJECT = nkey.USER
    ISSUERS = (nkey.ACCOUNT,)
    NOT_IN_VERSION_1 = ("issuer_account", "allowed_connection_types")
    DEFAULTS_OF_VERSION_1: ClassVar[dict[str, Any]] = dict.fromkeys(("subs", "data", "payload"), -1)

    nats: _UserBody

    @property
    def account(self) -> str:
        """The account that it is a user of."""
        return self.nats.issuer_account or self.issuer
