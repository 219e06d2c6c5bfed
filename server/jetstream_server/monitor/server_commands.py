"""`$SYS.REQ.SERVER.<id>.RELOAD`, `.KICK`, `.LDM`: what the system account may tell the server to
do.

`KICK` ends the connection of a client, `LDM` tells a client to go elsewhere; both take
`{"cid": n}`. `RELOAD` has the configuration read again; who asks for it is not heard until it is
followed. A request that cannot be read is logged and not answered, as in the genuine server
(docs/reference/events.md#requests-to-servers, probed with 2.15.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from jetstream_server.core.answers import Answers, UnderWay
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.node.node import Node
from jetstream_server.node.server_info import server_info

_KICKED = "Kicked"
_VERBS = (b"KICK", b"LDM", b"RELOAD")


class ServerCommands:
    """Acts on requests of the system account. A Receiver.

    Args:
        node: the server.
        reload: has the configuration read again, and tells later, or at once, what was wrong,
            empty if it is followed, and the time.
    """

    def __init__(self, node: Node, reload: Callable[[Callable[[str, int], None]], None]) -> None:
        self._node = node
        self._reload = reload
        self._account = node.accounts[node.options.system_account]

    def subscribe(self) -> None:
        """Start acting."""
        for verb in _VERBS:
            subject = b"$SYS.REQ.SERVER.%b.%b" % (self._node.server_id.encode(), verb)
            self._account.sublist.insert(Subscription(subject, self))

    def receive(self, stretch: Stretch) -> None:
        """Act on requests."""
        run, now, answers = stretch.run, stretch.now, stretch.answers
        for index in stretch.indices:
            if answers is not None and answers.postponed:
                answers.postpone(stretch.postponed_from(index))
                return
            verb, reply = run.subject(index).rpartition(b".")[2], run.reply(index)
            try:
                if verb == b"RELOAD":
                    self._begin_reload(reply, answers)
                    continue
                wrong = self._with_client(verb, run.payload(index))
            except Exception as error:
                wrong = str(self._node.containment.contain(error, now))
            if wrong is not None:
                self._answer(reply, wrong, now)

    def _begin_reload(self, reply: bytes, answers: Answers | None) -> None:
        under_way = UnderWay(answers) if answers is not None else None

        def told(wrong: str, now: int) -> None:
            self._answer(reply, wrong, now)
            if under_way is not None:
                under_way.end()

        self._reload(told)

    def _answer(self, reply: bytes, wrong: str, now: int) -> None:
        if not reply:
            return
        answer: dict[str, Any] = {"server": server_info(self._node, now)}
        if wrong:
            answer["error"] = {"code": 500, "description": wrong}
        self._account.output.publish(reply, encode(answer))

    def _with_client(self, verb: bytes, body: bytes) -> str | None:
        """Kick a client or tell it to move on; return what was wrong, None to stay silent."""
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            text = f"{verb.decode().lower()} client request cannot be read: {error}"
            self._node.note("ERR", f"SYSTEM - {text}")
            return None
        cid = request.get("cid") if isinstance(request, dict) else None
        session = self._node.sessions.get(cid) if type(cid) is int else None
        if verb == b"KICK":
            if session is None:
                return "no such client or leafnode id"
            session.close(_KICKED)
        else:
            if session is None:
                return "no such client id"
            session.move_on()
        return ""
