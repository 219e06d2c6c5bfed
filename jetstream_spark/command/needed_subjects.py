"""Which subjects the user of a job must be allowed, and whether it is. Pure values, no I/O.

What a job asks for follows from its options and from the retention of its streams. A need may be a
pattern: then all of it must be allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jetstream_spark.client.control import StreamState
from jetstream_spark.options.format_options import SinkOptions, SourceOptions
from jetstream_spark.subjects import covers, overlaps

PUBLISH, SUBSCRIBE = "publish", "subscribe"
_INBOXES = "_INBOX.>"


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a user must be allowed.

    Attributes:
        action: `publish` or `subscribe`.
        why: what it is for.
        otherwise: what becomes of the job without it; "" where it fails.
    """

    action: str
    subject: str
    why: str
    otherwise: str = ""


def needs_of_read(
    options: SourceOptions, streams: Mapping[str, StreamState], is_streaming: bool
) -> list[Need]:
    """What a read of these streams asks for.

    Args:
        streams: what the servers say of them.
    """
    api = options.connection.api_prefix
    found = [Need(SUBSCRIBE, _INBOXES, "answers and messages arrive there")]
    if options.stream_pattern:
        found.append(Need(PUBLISH, f"{api}.STREAM.NAMES", "which streams match streamPattern"))
    for name, state in streams.items():
        found += _publishes(api, f"STREAM.INFO.{name}", why="where the stream ends")
        found += _publishes(api, *_ways(options, state), why="reading")
        getting = f"{api}.STREAM.MSG.GET.{name}"
        if _looks_up(options, state):
            found.append(Need(PUBLISH, getting, "looking up a position"))
        elif is_streaming:
            found.append(Need(PUBLISH, getting, _OLDER_COPY, _OLDER_COPY_MISSED))
        if is_streaming and options.commit_mode == "purge":
            found += _publishes(
                api, f"STREAM.PURGE.{name}", f"CONSUMER.LIST.{name}", why="commitMode=purge"
            )
        elif is_streaming and options.commit_mode == "ack":
            asked = [f"CONSUMER.{verb}.{name}.{options.consumer}" for verb in _OF_ANCHOR]
            found += _publishes(api, *asked, why="commitMode=ack")
    return found


_OLDER_COPY = "whether the server was given an older copy of its files"
_OLDER_COPY_MISSED = (
    "the query goes on without an error if that happens and its stream has more messages by then "
    "than the query had read"
)
_OF_ANCHOR = ("INFO", "CREATE", "RESET")


def _ways(options: SourceOptions, state: StreamState) -> list[str]:
    is_direct = options.fetch_mode == "direct"
    if options.fetch_mode == "auto" and options.commit_mode in ("none", "purge"):
        is_direct = state.retention != "limits"
    return [f"DIRECT.GET.{state.name}"] if is_direct else _of_consumer(state.name)


def _of_consumer(stream: str) -> list[str]:
    return [f"CONSUMER.{verb}.{stream}.*" for verb in ("CREATE", "MSG.NEXT", "DELETE")]


def _looks_up(options: SourceOptions, state: StreamState) -> bool:
    is_by_time = (options.starting_timestamp_ns, options.ending_timestamp_ns) != (None, None)
    if options.commit_mode == "purge" or state.is_replicated or options.object_store:
        return True
    return is_by_time and state.retention != "limits"


def needs_of_write(options: SinkOptions, stream: StreamState | None) -> list[Need]:
    """What a write asks for.

    Args:
        stream: what the servers say of the stream it names; None when it names none.
    """
    api = options.connection.api_prefix
    found = [Need(SUBSCRIBE, _INBOXES, "acknowledgements and answers arrive there")]
    found += [Need(PUBLISH, subject, "rows") for subject in _targets(options, stream)]
    if options.dead_letter_subject:
        found.append(Need(PUBLISH, options.dead_letter_subject, "dead letters"))
    if options.subject or options.dead_letter_subject:
        found += _publishes(api, "STREAM.NAMES", why="which stream collects a subject")
    if not options.stream:
        return found
    name = options.stream
    found += _publishes(api, f"STREAM.INFO.{name}", why="the stream as the write begins")
    if options.dedupe == "none":
        return found
    again = "what is stored, before rows are sent again"
    found += _publishes(api, *_of_consumer(name), f"STREAM.MSG.GET.{name}", why=again)
    late = "rows that come late may be written twice"
    found.append(Need(PUBLISH, _INBOXES, "whether an earlier connection is gone", late))
    if options.ledger == "auto":
        bucket = options.ledger_bucket
        found.append(Need(PUBLISH, f"$KV.{bucket}.>", "the ledger"))
        asked = [f"STREAM.{verb}.KV_{bucket}" for verb in ("INFO", "CREATE", "MSG.GET", "PURGE")]
        found += _publishes(api, *asked, why="the ledger")
    return found


def _targets(options: SinkOptions, stream: StreamState | None) -> Iterable[str]:
    if options.object_store:
        store = options.object_store
        return (f"$O.{store}.C.>", f"$O.{store}.M.*")
    if options.bucket:
        return (f"$KV.{options.bucket}.>",)
    if options.subject:
        return (options.subject,)
    return stream.subjects if stream is not None else ()


def _publishes(api: str, *requests: str, why: str) -> list[Need]:
    return [Need(PUBLISH, f"{api}.{request}", why) for request in requests]


class GrantedRights:
    """What a user may do, as a server says.

    Args:
        answer: the server's, to `$SYS.REQ.USER.INFO`.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        data = answer.get("data") or {}
        self.user = str(data.get("user") or "")
        self.account = str(data.get("account") or "")
        said = data.get("permissions") or {}
        self._rules = {
            action: tuple(
                tuple(str(one) for one in (said.get(action) or {}).get(rule) or ())
                for rule in ("allow", "deny")
            )
            for action in (PUBLISH, SUBSCRIBE)
        }

    def allows(self, need: Need) -> bool:
        """Whether the whole of a need is allowed, as far as the rules tell."""
        allowed, denied = self._rules[need.action]
        if any(overlaps(need.subject, one) for one in denied):
            return False
        return not allowed or any(covers(one, need.subject) for one in allowed)
