"""What a user may do, as an account claims it; also what a signing key's scope grants.

A limit of -1 means none; one that is not given is 0, which lets nothing through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any, ClassVar

from pydantic import Field, field_validator

from jetstream_server.base import nkey
from jetstream_server.base.time_zone import find_zone
from jetstream_server.config.claims.claimed_subjects import permission_problems
from jetstream_server.config.claims.token import (
    ClaimFlag,
    ClaimInteger,
    ClaimLimit,
    ClaimList,
    Claims,
    ClaimTexts,
    SignedClaims,
)
from jetstream_server.config.permissions import Permissions, ResponsePermissions, SubjectPermissions

_NETWORK = re.compile(r"[^/%]+/[0-9]{1,3}")
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.,][0-9]{1,18})?")
_MAPPED_BITS = 96


class SubjectClaims(Claims):
    """Subjects of one direction; if none are given, nothing is restricted."""

    allow: ClaimTexts = ()
    deny: ClaimTexts = ()

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

    def subject_problems(self) -> Iterator[str]:
        """Yield what is wrong with subjects that can match nothing.

        Otherwise what is to be denied would not be.
        """
        return filter(None, self.looked_at())

    def looked_at(self) -> Iterator[str]:
        """Yield the same, and an empty text after each subject."""
        for claims, is_subscribed in ((self.sub, True), (self.pub, False)):
            for subject in claims.allow:
                yield from permission_problems(subject, is_subscribed=is_subscribed)
                yield ""
            for subject in claims.deny:
                yield from permission_problems(subject, is_subscribed=is_subscribed, is_denied=True)
                yield ""

    def bad_subject(self) -> str:
        """Return what is wrong with the first subject that can match nothing, empty if all can."""
        return next(self.subject_problems(), "")


class TimeRange(Claims):
    """A part of each day, `HH:MM:SS`."""

    start: str = ""
    end: str = ""

    def problem(self) -> str:
        """Return why it is none, empty if it is one."""
        if _TIME.fullmatch(self.start) and _TIME.fullmatch(self.end):
            return ""
        return f"time is not of the form HH:MM:SS: {self.start!r} to {self.end!r}"


class UserGrants(PermissionClaims):
    """Permissions and limits of a user.

    Attributes:
        src: networks from which it may connect; empty for any.
        times: when it may be connected; empty for always.
        locale: the zone of `times`; empty for UTC, `Local` for that of this machine.
        proxy_required: it may only connect by way of a trusted proxy, of which there are none here.
    """

    src: ClaimTexts = ()
    times: ClaimList[TimeRange] = ()
    locale: str = Field(default="", alias="times_location")
    subs: ClaimLimit = 0
    data: ClaimLimit = 0
    payload: ClaimLimit = 0
    bearer_token: ClaimFlag = False
    proxy_required: ClaimFlag = False
    allowed_connection_types: ClaimTexts = ()

    @field_validator("src", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        """Networks are a list, or one text with commas."""
        if not isinstance(given, str):
            return given
        return [each for each in map(str.strip, given.split(",")) if each]

    def is_from(self, host: str) -> bool:
        """Tell whether it may connect from an address."""
        if not self.src:
            return True
        try:
            address = _unmapped(ip_address(host))
        except ValueError:
            return False
        for each in self.src:
            if _network_problem(each):  # in the scope of a key, where nobody has looked at it
                return False
            if address in _network(each):
                return True
        return False

    def seconds_left(self, now_s: int) -> int | None:
        """Return for how many seconds from now it may be connected; None for ever, 0 for not at
        all."""
        if not self.times:
            return None
        zone = find_zone(self.locale or "UTC")
        if zone is None:
            return 0
        local = datetime.fromtimestamp(now_s, zone)
        if any(each.problem() for each in self.times):
            return 0  # in the scope of a key, where nobody has looked at it
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
        for each in self.src:
            if problem := _network_problem(each):
                return problem
        for part in self.times:
            if problem := part.problem():
                return problem
        if self.locale and find_zone(self.locale) is None:
            return f"could not parse iana time zone {self.locale!r}"
        return ""


def _network(text: str) -> IPv4Network | IPv6Network:
    """Return a network; one of addresses that stand for those of version 4 is the network of
    these."""
    network = ip_network(text, strict=False)
    address = _unmapped(network.network_address)
    if network.version == address.version or network.prefixlen < _MAPPED_BITS:
        return network
    return ip_network((address, network.prefixlen - _MAPPED_BITS))


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the address of version 4 for which one of version 6 may stand."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _network_problem(text: str) -> str:
    """Return why a text is no network, empty if it is one."""
    try:
        if _NETWORK.fullmatch(text) is None:  # an address, or one with a mask
            raise ValueError
        _network(text)
    except ValueError:
        return f"invalid cidr {text!r} in user src limits"
    return ""


def _at(day: datetime, text: str) -> datetime:
    hour, minute, second = map(int, re.split("[.,]", text)[0].split(":"))
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0)


class _UserBody(UserGrants):
    issuer_account: str = ""
    tags: ClaimTexts = ()

    @property
    def grants_nothing(self) -> bool:
        """Tell whether everything is left to the scope of the signing key."""
        empty = UserGrants()
        lists = ("src", "times", "allowed_connection_types")  # even empty ones are something
        return self.model_fields_set.isdisjoint(lists) and all(
            getattr(self, name) == getattr(empty, name) for name in UserGrants.model_fields
        )


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
