"""The JetStream API: streams, consumers, purges, and publishes that wait for their ack.

Requests are few and small, so they go one at a time through a pooled `Flow`.

A request is repeated until `Control.patience_s` has passed if its connection broke or could not be
made, or if nobody answered because a server is starting or a leader is being elected. So only
requests that may be carried out twice belong here; code that writes with an expected revision has
to recognise its own write (`ledger.py`).

Where a cluster may answer, that something is not there is believed only when it has been said for a
while (`Control.look_up`, `agreement.py`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jetstream_spark.client import pool
from jetstream_spark.client.agreement import Agreement
from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.client.operation import Host, Operation
from jetstream_spark.client.patience import PASSING, Patience
from jetstream_spark.errors import (
    ConnectorError,
    NoRespondersError,
    PermissionDeniedError,
    ProtocolViolationError,
    RequestRefusedError,
    RetryableError,
    StreamNotFoundError,
    StreamOfflineError,
    UnavailableError,
)
from jetstream_spark.options.connection_options import ConnectionOptions
from jetstream_spark.options.offsets import Newest
from jetstream_spark.options.option_values import timestamp_ns

STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
MESSAGE_NOT_FOUND = 10037
STREAM_OFFLINE = frozenset({10118, 10194})
_NOT_FOUND = frozenset({STREAM_NOT_FOUND, CONSUMER_NOT_FOUND})
_API = "$JS.API"
_NOBODY = 503  # the status of the answer where nobody listens
_ASKED_AT_ONCE = 250  # streams; their answers have some hundred kilobytes
# No leader just now, or the cluster is forming: asked again, it may answer.
_UNAVAILABLE = frozenset({10008, 10009})

# What the names of the connector's own short-lived consumers begin with.
CONSUMER_PREFIX = "spark-"


@dataclass(frozen=True, slots=True)
class StreamState:
    """What planning needs to know of a stream at one moment.

    Attributes:
        created: when this incarnation was made, the server's own text.
        first: the first sequence held, or the next one to come when the stream is empty.
        next: the sequence that the next message will get.
        is_copy: it holds messages from before it was made, because it was restored or is a mirror,
            and has the sequences of another stream.
        config: the configuration as the server sent it.
        newest: the last message that it ever had; None if there was none.
    """

    name: str
    created: str
    first: int
    next: int
    messages: int
    bytes: int
    config: dict[str, Any]
    is_copy: bool = False
    newest: Newest | None = None

    @property
    def retention(self) -> str:
        """`limits`, `interest` or `workqueue`."""
        return str(self.config.get("retention", "limits"))

    @property
    def is_replicated(self) -> bool:
        """Whether a consumer may be on a replica that does not have everything yet."""
        return int(self.config.get("num_replicas", 1)) > 1

    @property
    def keeps_last(self) -> bool:
        """Whether it keeps only so many messages of a subject, as a key-value bucket does."""
        return int(self.config.get("max_msgs_per_subject", -1)) > 0

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects that the stream collects; empty for a mirror."""
        return tuple(self.config.get("subjects") or ())


class Control:
    """Requests to the JetStream API under one set of connection options.

    Args:
        role: names the connections for operators: "driver", "reader", "writer".
        patience_s: how long one request is repeated while nobody answers it; `outageTimeout` when
            None.

    Attributes:
        server_id: of the server through which the last answer came; another one after each start.
    """

    def __init__(
        self,
        host: Host,
        options: ConnectionOptions,
        role: str = "driver",
        patience_s: float | None = None,
    ) -> None:
        self.host = host
        self.options = options
        self.role = role
        self.patience_s = options.outage_timeout_s if patience_s is None else patience_s
        self.server_id = ""
        # With another prefix the answers come from elsewhere, through this server.
        self._may_be_cluster = options.api_prefix != _API

    def request(
        self, operation: str, body: dict[str, Any] | None = None
    ) -> Operation[dict[str, Any]]:
        """Ask the API, for example `request("STREAM.INFO.ORDERS")`.

        Raises:
            RequestRefusedError: the API answered with an error.
            StreamOfflineError: the answer is that the stream cannot be served.
            RequestTimeoutError, NoRespondersError, ConnectionFailedError, ConnectionLostError,
                UnavailableError: nothing answered within `patience_s`.
        """
        subject = f"{self.options.api_prefix}.{operation}"
        payload = json.dumps(body).encode() if body is not None else b""
        return (yield from self.request_message(subject, payload))

    def request_message(
        self, subject: str, payload: bytes, headers: bytes = b"", stream: str = ""
    ) -> Operation[dict[str, Any]]:
        """Send any message that is answered with JSON: an API request, or a publish to a stream.

        Args:
            stream: who answers, if it is a publish; while nobody does it may be gone.

        Raises: as `request`; StreamNotFoundError.
        """
        patience = Patience(self.host, self.patience_s)
        while True:
            try:
                return (yield from self._ask(subject, payload, headers))
            except PASSING as error:
                if stream and isinstance(error, NoRespondersError):
                    yield from self.check_there(stream)
                yield from patience.wait(error)

    def look_up(
        self, operation: str, body: dict[str, Any] | None = None
    ) -> Operation[dict[str, Any]]:
        """Ask the API about a stream or a consumer that may not be there.

        Raises: as `request`. Where a cluster may have answered, the refusal that says that it is
            not there has been given for `AGREED_S`.
        """
        agreement = Agreement(self.host)
        while True:
            try:
                return (yield from self.request(operation, body))
            except RequestRefusedError as error:
                if error.err_code not in _NOT_FOUND or not self._may_be_cluster:
                    raise
                if not (yield from agreement.wait()):
                    raise

    def check_there(self, stream: str) -> Operation[None]:
        """Ask once whether a stream that does not answer is there; it may lack a leader.

        Raises:
            StreamNotFoundError: JetStream is there, and says that there is none of that name.
        """
        asking = Control(self.host, self.options, self.role, patience_s=0)
        try:
            yield from asking.stream_state(stream)
        except RetryableError:  # nobody knows just now
            return
        except StreamNotFoundError as error:
            remedy = (
                f"{error.remedy} If it was deleted while it was written to, make it again or bring "
                "it back from a backup, and run the write again: what it has not got is written."
            )
            raise StreamNotFoundError(error.what, remedy) from None

    def _ask(self, subject: str, payload: bytes, headers: bytes) -> Operation[dict[str, Any]]:
        flow = yield from pool.take(self.host, self.options, self.role)
        with pool.keeping(self.host, self.options, self.role, flow):
            timeout_s = self.options.request_timeout_s
            message = yield from flow.request(subject.encode(), payload, timeout_s, headers)
        self._note_server(flow)
        return _answer(subject, message)

    def _note_server(self, flow: Flow) -> None:
        self.server_id = flow.server_id
        self._may_be_cluster |= bool(flow.info.get("cluster"))

    def request_over(
        self, flow: Flow, operation: str, body: dict[str, Any]
    ) -> Operation[dict[str, Any]]:
        """Ask the API once, over a connection of the caller's; anything said on it before comes
        first.

        Raises: as `request`.
        """
        subject = f"{self.options.api_prefix}.{operation}"
        return (yield from self.request_message_over(flow, subject, json.dumps(body).encode()))

    def request_message_over(
        self, flow: Flow, subject: str, payload: bytes, headers: bytes = b""
    ) -> Operation[dict[str, Any]]:
        """Send any message once, over a connection of the caller's.

        Raises: as `request`.
        """
        timeout_s = self.options.request_timeout_s
        message = yield from flow.request(subject.encode(), payload, timeout_s, headers)
        return _answer(subject, message)

    # --- streams ----------------------------------------------------------------------------

    def stream_state(self, stream: str) -> Operation[StreamState]:
        """The state of a stream.

        Raises:
            StreamNotFoundError: there is no stream of that name; the visible ones are listed.
        """
        answer = yield from self.request_about(stream, f"STREAM.INFO.{stream}")
        return self._state_of(stream, answer)

    def stream_states(self, streams: Sequence[str]) -> Operation[dict[str, StreamState | None]]:
        """The state of each of several streams, None for one that is not there.

        All are asked for at once, so that it takes no longer for a hundred than for a few.

        Raises: as `request`.
        """
        found: dict[str, StreamState] = {}
        if len(streams) > 1:
            with contextlib.suppress(*PASSING):  # then each is asked for by itself, with patience
                found = yield from self._states_at_once(streams)
        states: dict[str, StreamState | None] = {}
        for stream in streams:
            states[stream] = found.get(stream)
            if stream not in found:
                with contextlib.suppress(StreamNotFoundError):
                    states[stream] = yield from self.stream_state(stream)
        return states

    def _states_at_once(self, streams: Sequence[str]) -> Operation[dict[str, StreamState]]:
        """The states of those streams that tell them."""
        found = {}
        flow = yield from pool.take(self.host, self.options, self.role)
        with pool.keeping(self.host, self.options, self.role, flow):
            for start in range(0, len(streams), _ASKED_AT_ONCE):
                some = streams[start : start + _ASKED_AT_ONCE]
                subjects = [f"{self.options.api_prefix}.STREAM.INFO.{stream}" for stream in some]
                timeout_s = self.options.request_timeout_s
                encoded = [subject.encode() for subject in subjects]
                answers = yield from flow.request_all(encoded, timeout_s)
                self._note_server(flow)
                for stream, subject, answer in zip(some, subjects, answers, strict=True):
                    if answer.status[0] != _NOBODY:
                        with contextlib.suppress(ConnectorError):
                            found[stream] = self._state_of(stream, _answer(subject, answer))
        return found

    def _state_of(self, stream: str, answer: dict[str, Any]) -> StreamState:
        state = answer["state"]
        following = int(state["last_seq"]) + 1
        return StreamState(
            name=stream,
            created=str(answer["created"]),
            # An empty stream reports first_seq 0 before its first message and last+1 after a
            # purge; both mean that nothing is held below `following`.
            first=int(state["first_seq"]) if state["messages"] else following,
            next=following,
            messages=int(state["messages"]),
            bytes=int(state["bytes"]),
            config=dict(answer["config"]),
            is_copy=_is_copy(answer),
            newest=Newest(following - 1, _time_of_last(state)) if following > 1 else None,
        )

    def state_reaching(self, stream: str, created: str, reached: int) -> Operation[StreamState]:
        """The state of a stream that is known to have come so far; a leader may not know it yet.

        Args:
            created: of the incarnation that has.
            reached: the sequence before which it ended then.

        Returns:
            A state. That a replicated stream ends before has been said for `AGREED_S`.

        Raises: as `stream_state`.
        """
        agreement = Agreement(self.host)
        while True:
            state = yield from self.stream_state(stream)
            is_short = state.created == created and state.next < reached
            if not is_short or not state.is_replicated or not (yield from agreement.wait()):
                return state

    def request_about(
        self, stream: str, operation: str, body: dict[str, Any] | None = None
    ) -> Operation[dict[str, Any]]:
        """Ask what only a stream that is there can answer.

        Raises: as `request`; StreamNotFoundError, as `stream_state`.
        """
        visible: list[str] | None = []
        for _ in range(2):
            try:
                return (yield from self.look_up(operation, body))
            except RequestRefusedError as error:
                if error.err_code != STREAM_NOT_FOUND:
                    raise
            try:
                visible = yield from self.stream_names()
            except PermissionDeniedError:
                visible = None
            if not visible or stream not in visible:
                break  # else it was made a moment ago
        names = "the user may not list them" if visible is None else ", ".join(visible) or "none"
        raise StreamNotFoundError(
            f"stream not found: '{stream}' at {', '.join(map(str, self.options.servers))}; "
            f"visible streams: {names}.",
            "Check the option stream, and domain or the account of the user.",
        )

    def is_collected(self, subject: str, stream: str = "") -> Operation[bool]:
        """Whether a stream collects a subject; any stream when none is named.

        Where a cluster answers, that none does has been said for `AGREED_S`.

        Raises: as `request`.
        """
        agreement = Agreement(self.host)
        while True:
            names = yield from self.stream_names(subject)
            if stream in names if stream else names:
                return True
            if not self._may_be_cluster or not (yield from agreement.wait()):
                return False

    def stream_names(self, subject: str = "") -> Operation[list[str]]:
        """The names of the streams of the account, at most one page (1024) of them.

        Args:
            subject: only those that collect it.
        """
        body = {"subject": subject} if subject else None
        return list((yield from self.request("STREAM.NAMES", body)).get("streams") or ())

    def all_stream_names(self) -> Operation[list[str]]:
        """The names of all streams of the account, page by page."""
        found: list[str] = []
        while True:
            answer = yield from self.request("STREAM.NAMES", {"offset": len(found)})
            page = [str(name) for name in answer.get("streams") or ()]
            found += page
            if not page or len(found) >= int(answer.get("total", 0)):
                return found

    def next_sequence(
        self, stream: str, sequence: int, subject: str = ">"
    ) -> Operation[int | None]:
        """The first sequence from one on that holds a message of a subject; None without any.

        The stream's leader is asked, so whatever is stored is found. A consumer or a direct get
        tells what one replica holds, which may lag.
        """
        message = yield from self._message_from(stream, sequence, subject)
        return int(message["seq"]) if message is not None else None

    def first_since(self, state: StreamState, since_ns: int) -> Operation[int]:
        """The first sequence stored at or after a time, where the stream ends if there is none.

        Found by looking at a few messages, which leaves no traces in the stream. Their times rise.
        """
        low, high = state.first, state.next  # before low they are older, from high on they are not
        while low < high:
            middle = (low + high) // 2
            found = yield from self.time_at(state.name, middle)
            if found is None or found[0] >= high:
                high = middle  # nothing lies between
            elif found[1] >= since_ns:
                high = middle
            else:
                low = found[0] + 1
        return low

    def time_at(self, stream: str, sequence: int) -> Operation[tuple[int, int] | None]:
        """The first message from a sequence on: its sequence, and its time in nanoseconds."""
        message = yield from self._message_from(stream, sequence, ">")
        if message is None:
            return None
        return int(message["seq"]), timestamp_ns(str(message["time"]))

    def _message_from(
        self, stream: str, sequence: int, subject: str
    ) -> Operation[dict[str, Any] | None]:
        """The first message of a subject from a sequence on, None without any."""
        body = {"seq": sequence, "next_by_subj": subject}
        try:
            answer = yield from self.look_up(f"STREAM.MSG.GET.{stream}", body)
        except RequestRefusedError as error:
            if error.err_code in (MESSAGE_NOT_FOUND, STREAM_NOT_FOUND):
                return None
            raise
        return dict(answer["message"])

    def purge(self, stream: str, before: int, subject: str = "") -> Operation[int]:
        """Remove every message below sequence `before` (that matches); return how many.

        Whoever is told that there is no such stream is not asked again: the next one of that name
        would be another.

        Raises:
            StreamNotFoundError: there is no such stream.
            UnavailableError: there is, and a moment ago it was said that there is not.
        """
        body: dict[str, Any] = {"seq": before}
        if subject:
            body["filter"] = subject
        try:
            answer = yield from self.request(f"STREAM.PURGE.{stream}", body)
        except RequestRefusedError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise
            yield from self.stream_state(stream)
            raise UnavailableError(
                f"stream '{stream}' was not found to be purged, and is there now.",
                "What is to be purged of it goes with the next commit.",
            ) from None
        return int(answer.get("purged", 0))

    def check_purge(self, stream: str) -> Operation[None]:
        """Make sure that the user may purge a stream; nothing is removed.

        It purges a subject that nobody ever used. A purge of all subjects up to sequence 1 would do
        as well today, but older servers took that to mean all messages.

        Raises:
            PermissionDeniedError: the user may not.
            StreamNotFoundError: there is no such stream.
        """
        unused = f"spark.{self.host.token(12)}"
        body = {"seq": 1, "filter": unused}
        yield from self.request_about(stream, f"STREAM.PURGE.{stream}", body)

    # --- consumers --------------------------------------------------------------------------

    def create_consumer(self, stream: str, config: dict[str, Any]) -> Operation[dict[str, Any]]:
        """Create a consumer and return its info (`name`, `num_pending`, ...).

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        body = {"stream_name": stream, "config": config, "action": "create"}
        operation = f"CONSUMER.CREATE.{stream}.{config['name']}"
        return (yield from self.request_about(stream, operation, body))

    def delete_consumer(self, stream: str, consumer: str) -> Operation[None]:
        """Delete a consumer; it is fine if it is gone already."""
        try:
            yield from self.request(f"CONSUMER.DELETE.{stream}.{consumer}")
        except RequestRefusedError as error:
            if error.err_code not in (CONSUMER_NOT_FOUND, STREAM_NOT_FOUND):
                raise

    def consumers(self, stream: str) -> Operation[list[dict[str, Any]]]:
        """The infos of all consumers of a stream, page by page.

        Raises:
            StreamNotFoundError: there is no such stream.
        """
        found: list[dict[str, Any]] = []
        while True:
            body = {"offset": len(found)}
            answer = yield from self.request_about(stream, f"CONSUMER.LIST.{stream}", body)
            page = list(answer.get("consumers") or ())
            found += page
            if not page or len(found) >= int(answer.get("total", 0)):
                return found


def _answer(subject: str, message: Message) -> dict[str, Any]:
    try:
        answer = json.loads(message.payload)
        error = answer.get("error")
        refusal = _refusal(subject, error) if error else None
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ProtocolViolationError(
            f"the answer to '{subject}' is none of JetStream's: {message.payload[:80]!r}."
        ) from None
    if refusal is not None:
        raise refusal
    return dict(answer)


def _time_of_last(state: dict[str, Any]) -> int:
    """When the last message was stored, in nanoseconds; 0 where the server does not know it."""
    return max(0, timestamp_ns(str(state["last_ts"]))) if state.get("last_ts") else 0


def _is_copy(info: dict[str, Any]) -> bool:
    if info["config"].get("mirror"):
        return True
    if not info["state"]["messages"]:
        return False
    first = timestamp_ns(str(info["state"]["first_ts"]))
    return first < timestamp_ns(str(info["created"]))


def _refusal(subject: str, error: dict[str, Any]) -> ConnectorError:
    code, err_code = int(error.get("code", 0)), int(error.get("err_code", 0))
    text = str(error.get("description", ""))
    if err_code in STREAM_OFFLINE:
        return StreamOfflineError(
            f"the server cannot serve '{subject}': {text} (error {err_code}).",
            "Its log and /healthz say more. Bring the server or its disk back, then run the query "
            "again: it goes on where it was.",
        )
    if err_code in _UNAVAILABLE:
        return UnavailableError(
            f"the servers cannot answer '{subject}' just now: {text} (error {err_code}).",
            "Look into the state of the cluster; it is asked again until outageTimeout.",
        )
    return RequestRefusedError(subject, code, err_code, text)
