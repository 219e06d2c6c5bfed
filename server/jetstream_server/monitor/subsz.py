"""/subsz: the subscriptions of all accounts, the server's own included.

Look-ups, and hits in the cache, are not counted, because they happen with every message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from jetstream_server.core.steps import InSteps
from jetstream_server.core.subject import is_valid_literal, matches
from jetstream_server.core.sublist import Sublist
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.connz import subscription_detail
from jetstream_server.monitor.query import BadQueryError, Query
from jetstream_server.node.node import Node
from jetstream_server.node.session import Session

SUBSCRIPTIONS_PAGE = 1024
LOOKED_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class SubszOptions:
    """Which subscriptions; none are listed unless asked for."""

    listed: bool = False
    offset: int = 0
    limit: int = 0
    account: str = ""
    test: str = ""

    @classmethod
    def of(cls, query: Query) -> Self:
        """Read them.

        Raises:
            BadQueryError: something that is not understood.
        """
        test = query.text("test")
        if test and not is_valid_literal(test.encode()):
            text = f"invalid test subject, must be valid publish subject: {test}"
            raise BadQueryError(text)
        return cls(
            query.flag("subs", "subscriptions"),
            query.number("offset"),
            query.number("limit"),
            query.text("acc", "account"),
            test,
        )


def sublist_stats(sublists: Sequence[Sublist]) -> dict[str, Any]:
    """Return what is known of these lists together."""
    count = sum(each.count for each in sublists)
    changes = sum(each.generation for each in sublists)
    fanouts = [fanout for each in sublists for fanout in each.fanouts()]
    return {
        "num_subscriptions": count,
        "num_cache": len(fanouts),
        "num_inserts": (changes + count) // 2,
        "num_removes": (changes - count) // 2,
        "num_matches": 0,
        "cache_hit_rate": 0,
        "max_fanout": max(fanouts, default=0),
        "avg_fanout": sum(fanouts) / len(fanouts) if fanouts else 0,
    }


def subsz_in_steps(node: Node, now: int, options: SubszOptions) -> InSteps[dict[str, Any]]:
    """Return their number, and a page of them on demand; some of those that come or go meanwhile
    are in it."""
    offset = max(options.offset, 0)
    limit = options.limit if options.limit > 0 else SUBSCRIPTIONS_PAGE
    accounts = [each for each in node.accounts.values() if options.account in ("", each.name)]
    found: list[dict[str, Any]] = []
    total = 0
    if options.listed:
        subject = options.test.encode()
        looked_at = 0
        for account in accounts:
            name = account.name
            for each in account.sublist:
                looked_at += 1
                if looked_at % LOOKED_AT_ONCE == 0:
                    yield
                if subject and not matches(each.subject, subject):
                    continue
                if offset <= total < offset + limit:
                    cid = each.outlet.cid if isinstance(each.outlet, Session) else 0
                    detail = subscription_detail(each, cid)
                    found.append({"account": name, "account_tag": name, **detail})
                total += 1
    view = {
        "server_id": node.server_id,
        "now": format_time(now),
        **sublist_stats([account.sublist for account in accounts]),
        "total": total,
        "offset": offset,
        "limit": limit,
    }
    return view | {"subscriptions_list": found} if found else view
