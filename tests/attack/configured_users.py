"""Accounts and users as a configuration names them, with passwords."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jetstream_server.config.load import load
from jetstream_server.config.options import ServerOptions
from jetstream_server.monitor.claims_services import ClaimsServices
from jetstream_server.node.accounts.account_changes import AccountChanges
from jetstream_server.node.auth.auth import Authenticator
from jetstream_server.node.auth.users import users_of
from jetstream_server.node.node import Node

USERS = ("a", "a", "b", "s", "r")
CONFIG = """
accounts {{
  A {{ jetstream: enabled, users: [{{user: a, password: x}},
         {{user: r, password: x, permissions: {{
           publish: {{allow: ["s0.>", "$JS.API.>", "$JS.ACK.>"], deny: "s0.b"}},
           subscribe: {{allow: ["_INBOX.>", "s1.> q"], deny: "a.>"}}, allow_responses: true }} }}],
       exports: [{{stream: "news.>"}}, {{stream: "d.>"}},
                 {{service: "$JS.API.>", response: stream}}, {{service: "$JS.ACK.>"}},
                 {{service: "s0.>", response: stream}}, {{service: "s4.>", response: stream}},
                 {{service: "help.>", latency: {{sampling: 100, subject: "told"}}}}],
       {mappings} }}
  B {{ {jetstream} users: [{{user: b, password: x}}],
       imports: [{{stream: {{account: A, subject: "news.>"}}, prefix: "from"}},
                 {{stream: {{account: A, subject: "d.>"}}, to: "came.>"}},
                 {{service: {{account: A, subject: "$JS.API.>"}}, to: "from.API.>"}},
                 {{service: {{account: A, subject: "$JS.ACK.>"}}}},
                 {{service: {{account: A, subject: "s0.>"}}, to: "far.s0.>"}},
                 {{service: {{account: A, subject: "s4.>"}}, to: "far.s4.>"}},
                 {{service: {{account: A, subject: "help.>"}}}}] }}
  X {{ jetstream: enabled, users: [{{user: x, password: x}}] }}
  SYS {{ users: [{{user: s, password: x}}] }}
}}
system_account: SYS
max_payload: 1MB
{limits}
jetstream {{ store_dir: "{folder}", domain: "hub" }}
"""
VARIANTS: tuple[dict[str, str], ...] = (
    {"mappings": "", "jetstream": "", "limits": ""},
    {"mappings": 'mappings: {{ "m.*": "s0.$1" }}', "jetstream": "",
     "limits": "max_control_line: 2KB"},
    {"mappings": "", "jetstream": "jetstream: enabled,", "limits": "max_connections: 4"},
    {"mappings": 'mappings: {{ "s0.a": [{{ destination: "s1.a", weight: 50% }}] }}',
     "jetstream": "jetstream: {{max_streams: 1, max_mem: 1KB}},", "limits": "ping_interval: 1s"},
)  # fmt: skip
Note = Callable[[str, str], None]


class ConfiguredUsers:
    """Who may connect, and how they prove who they are.

    Attributes:
        witnesses: users who have a stream each that nobody else has to do with.
        newcomers: users who may still come in after an attack.
    """

    witnesses = (("x", "W"), ("a", "WITNESS"))
    newcomers: tuple[str, ...] = ()

    def options(self, folder: Path, number: int, now: int, note: Note) -> ServerOptions:
        """Return what the operator asks for, in one of the variants."""
        config = folder / "server.conf"
        variant = {key: text.format() for key, text in VARIANTS[number].items()}
        config.write_text(CONFIG.format(folder=folder / "store", **variant))
        return load(str(config))

    def restarted(self, options: ServerOptions, now: int, note: Note) -> ServerOptions:
        """Return what the same options mean to a server that starts again."""
        return options

    def renewed(self, options: ServerOptions, now: int) -> ServerOptions:
        """Return the same options, with accounts as they are by now."""
        return options

    def gatekeeper(self, options: ServerOptions) -> Authenticator:
        """Return who decides over CONNECT."""
        return Authenticator(users_of(options))

    def serve(self, node: Node, changed: Callable[[int], None]) -> None:
        """Have requests about claims answered, though nobody claims anything here."""
        changes = AccountChanges(node.accounts[node.options.system_account], node.workload)
        ClaimsServices(node, None, _NoTokens(), changes).subscribe()  # type: ignore[arg-type]

    def credentials(self, user: str, nonce: str) -> bytes:
        """Return the fields of CONNECT that prove who somebody is."""
        return b'"user":"%b","pass":"x"' % user.encode()

    def trouble(self, now: int) -> str:
        """Return what goes no longer, empty if all does."""
        return ""


class _NoTokens:
    def tokens(self) -> dict[str, str]:
        return {}
