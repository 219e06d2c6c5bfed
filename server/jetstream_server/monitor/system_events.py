"""What the server tells the system account: who comes and goes, how the server is doing, when it
ends.

| Subject | When |
|---|---|
| `$SYS.ACCOUNT.<account>.CONNECT`, `.DISCONNECT` | a client has logged in, is gone |
| `$SYS.ACCOUNT.<account>.SERVER.CONNS`, `$SYS.SERVER.ACCOUNT.<account>.CONNS` | the same |
| `$SYS.SERVER.<id>.CLIENT.AUTH.ERR` | a client could not log in |
| `$SYS.SERVER.<id>.STATSZ` | a quarter of a second after the start, soon again, then every 10 s |
| `$SYS.SERVER.<id>.LAMEDUCK`, `.SHUTDOWN` | no new clients; the end |

An event to which nobody listens is not made. Subjects, schemas and the order of events were probed
with the genuine server 2.15.1, which also reports an account's connections when its streams'
subscriptions change; that adds nothing new (docs/reference/events.md#system-events).
"""

from __future__ import annotations

from typing import Any

from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.accountz import account_stat
from jetstream_server.monitor.varz import statsz
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.auth.auth import GLOBAL_ACCOUNT
from jetstream_server.node.node import Node
from jetstream_server.node.server_info import server_info
from jetstream_server.node.session import Session
from jetstream_server.protocol.errors import AUTHORIZATION_VIOLATION

_TYPE = "io.nats.server.advisory.v1."
_FIRST_STATS_NS = 250 * MILLISECOND
_STATS_NS_MAX = 10 * SECOND
_CLIENT_FIRST = ("start", "host", "id", "acc", "user", "name", "lang", "ver", "rtt")
_CLIENT_LAST = ("jwt", "issuer_key", "name_tag", "tags", "kind", "client_type")


class SystemEvents:
    """Publishes events in the system account. The node's `Chronicle`.

    Args:
        node: what it tells about; started at `now`.

    Attributes:
        next_at: when `run` has something to do.
    """

    def __init__(self, node: Node, now: int) -> None:
        self._node = node
        self._account = node.accounts[node.options.system_account]
        self._stats_gap_ns = SECOND
        self.next_at = now + _FIRST_STATS_NS

    # -- clients -----------------------------------------------------------------------------

    def connected(self, session: Session, now: int) -> None:
        """A client has logged in."""
        self._tell_connections(session.account, now)
        subject = f"$SYS.ACCOUNT.{session.account.name}.CONNECT"
        if self._is_wanted(subject):
            client = _client(session, session.account.name, now)
            client.pop("rtt", None)
            self._tell(subject, "client_connect", now, {"client": client})

    def disconnected(self, session: Session, now: int) -> None:
        """A client is gone, whether or not it had logged in."""
        if session.is_connected:
            self._tell_end(f"$SYS.ACCOUNT.{session.account.name}.DISCONNECT", session, now)
            self._tell_connections(session.account, now)
        elif session.closing == AUTHORIZATION_VIOLATION.reason:
            self._tell_end(f"$SYS.SERVER.{self._node.server_id}.CLIENT.AUTH.ERR", session, now)
            self._tell_end(f"$SYS.ACCOUNT.{GLOBAL_ACCOUNT}.DISCONNECT", session, now)

    def _tell_end(self, subject: str, session: Session, now: int) -> None:
        if not self._is_wanted(subject):
            return
        account = session.account.name if session.is_connected else GLOBAL_ACCOUNT
        client = _client(session, account, now, stop=format_time(now))
        traffic = session.traffic
        fields = {
            "client": client,
            "sent": {"msgs": traffic.out_msgs, "bytes": traffic.out_bytes},
            "received": {"msgs": traffic.in_msgs, "bytes": traffic.in_bytes},
            "reason": session.closing,
        }
        self._tell(subject, "client_disconnect", now, fields)

    def _tell_connections(self, account: Account, now: int) -> None:
        subjects = [
            f"$SYS.SERVER.ACCOUNT.{account.name}.CONNS",
            f"$SYS.ACCOUNT.{account.name}.SERVER.CONNS",
        ]
        event_id = self._node.nuid.next()
        for subject in filter(self._is_wanted, subjects):
            stat = account_stat(self._node, account)
            self._tell(subject, "account_connections", now, stat, event_id)

    # -- the server --------------------------------------------------------------------------

    def run(self, now: int) -> None:
        """Tell how the server is doing, when it is time for that."""
        if now < self.next_at:
            return
        self.next_at = now + self._stats_gap_ns
        self._stats_gap_ns = min(2 * self._stats_gap_ns, _STATS_NS_MAX)
        self.tell_stats(now)

    def tell_stats(self, now: int) -> None:
        """Tell how the server is doing."""
        subject = f"$SYS.SERVER.{self._node.server_id}.STATSZ"
        if self._is_wanted(subject):
            body = {"server": server_info(self._node, now), "statsz": statsz(self._node, now)}
            self._publish(subject, body)

    def lame_duck_began(self, now: int) -> None:
        """The server takes no more clients, and moves on those it has."""
        self._tell_server("LAMEDUCK", now)

    def stopping(self, now: int) -> None:
        """The server is about to end."""
        self._tell_server("SHUTDOWN", now)

    def _tell_server(self, word: str, now: int) -> None:
        subject = f"$SYS.SERVER.{self._node.server_id}.{word}"
        if self._is_wanted(subject):
            self._publish(subject, server_info(self._node, now))

    # -- publishing --------------------------------------------------------------------------

    def _is_wanted(self, subject: str) -> bool:
        return self._account.sublist.has_interest(subject.encode())

    def _tell(
        self, subject: str, kind: str, now: int, fields: dict[str, Any], event_id: str = ""
    ) -> None:
        self._publish(subject, event(kind, self._node, now, fields, event_id))

    def _publish(self, subject: str, body: dict[str, Any]) -> None:
        # Nothing that an event reports waits for the disk.
        self._account.output.publish_now(subject.encode(), encode(body))


def event(
    kind: str, node: Node, now: int, fields: dict[str, Any], event_id: str = ""
) -> dict[str, Any]:
    """Return what is told, after what every event begins with."""
    return {
        "type": _TYPE + kind,
        "id": event_id or node.nuid.next(),
        "timestamp": format_time(now),
        "server": server_info(node, now),
        **fields,
    }


def _client(session: Session, account: str, now: int, **more: str) -> dict[str, Any]:
    info = {"name_tag": account} | session.client_info(now) | {"acc": account}
    if not session.is_connected and (user := session.options.get("user")):
        info["user"] = user  # the name under which it wanted to log in
    first = {key: info[key] for key in _CLIENT_FIRST if key in info}
    last = {key: info[key] for key in _CLIENT_LAST if key in info}
    return first | more | last
