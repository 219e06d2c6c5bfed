"""The account that the console is in: what it holds and may hold."""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_console.asking.answers import Answer, number, part, text
from jetstream_console.asking.api import Api


@dataclass(frozen=True, slots=True)
class Usage:
    """What an account, or a tier of it, holds.

    Attributes:
        storage_max: bytes; negative if there is no limit, as in the others that end in `max`.
    """

    tier: str
    storage: int
    memory: int
    streams: int
    consumers: int
    storage_max: int
    memory_max: int
    streams_max: int


@dataclass(frozen=True, slots=True)
class Account:
    """An account of JetStream.

    Attributes:
        total: of the whole account.
        tiers: by number of replicas, if limits are given that way.
    """

    domain: str
    total: Usage
    tiers: tuple[Usage, ...]
    api_requests: int
    api_errors: int


async def account(api: Api) -> Account:
    """Return the account.

    Raises:
        AskingError: JetStream is off, or the user may not ask.
    """
    answer = await api.ask("INFO")
    tiers = part(answer, "tiers")
    return Account(
        domain=text(answer, "domain"),
        total=_usage("", answer),
        tiers=tuple(_usage(name, part(tiers, name)) for name in sorted(tiers)),
        api_requests=number(part(answer, "api"), "total"),
        api_errors=number(part(answer, "api"), "errors"),
    )


def _usage(tier: str, answer: Answer) -> Usage:
    limits = part(answer, "limits")
    return Usage(
        tier=tier,
        storage=number(answer, "storage"),
        memory=number(answer, "memory"),
        streams=number(answer, "streams"),
        consumers=number(answer, "consumers"),
        storage_max=number(limits, "max_storage"),
        memory_max=number(limits, "max_memory"),
        streams_max=number(limits, "max_streams"),
    )
