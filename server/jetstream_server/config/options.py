"""Everything a server is told at its start, with the defaults of the genuine server.

Built by `config/load.py` from a file and by `config/flags.py` from the command line; nobody changes
them afterwards. Names are `str`; durations are nanoseconds; a limit of 0 or below is no limit
unless it says otherwise. Specification: docs/reference/protocol.md#limits and
docs/reference/configuration.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jetstream_server.base import limits
from jetstream_server.base.clock import MICROSECOND, MINUTE, SECOND
from jetstream_server.config.permissions import Permissions

if TYPE_CHECKING:
    from jetstream_server.config.claims.account_claims import AccountClaims

GLOBAL_ACCOUNT = "$G"
SYSTEM_ACCOUNT = "$SYS"
LAME_DUCK_DURATION_NS_MIN = 30 * SECOND


@dataclass(frozen=True, slots=True)
class UserOptions:
    """One user; either a name with a password (maybe bcrypt) or a public nkey."""

    user: str = ""
    password: str = field(default="", repr=False)
    nkey: str = ""
    permissions: Permissions | None = None
    connection_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    """The `authorization` block: at most one of user and password, token, or `users`.

    Attributes:
        timeout_ns: how long a client has for its CONNECT, 0 where the block does not say.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    timeout_ns: int = 0
    permissions: Permissions | None = None
    users: tuple[UserOptions, ...] = ()

    @property
    def is_required(self) -> bool:
        """Whether a client of no account must show who it is."""
        return bool(self.user or self.password or self.token or self.users)


@dataclass(frozen=True, slots=True)
class AccountJetStreamOptions:
    """What an account may store; -1 is no limit.

    Attributes:
        tiers: the same for streams with so many replicas, by `R1`, `R3`; instead of all others.
    """

    max_memory: int = -1
    max_store: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_bytes_required: bool = False
    memory_max_stream_bytes: int = -1
    store_max_stream_bytes: int = -1
    max_ack_pending: int = -1
    tiers: Mapping[str, AccountJetStreamOptions] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LatencyOptions:
    """What percentage of a service's requests is timed, 0 for those whose headers ask for it; and
    on which subject the time is reported."""

    subject: str
    percent: int = 100


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What an account offers: a stream of messages, or a service that answers requests.

    Attributes:
        kind: `stream` or `service`.
        subject: a pattern.
        accounts: who may import it; empty for everybody.
        is_private: nobody but `accounts` may import it, even if that is nobody.
        activated: the names of accounts, each with a subject of it that it may import as well.
        account_token_position: the token, from 1, that has to be the importer's name; 0 for none.
        response: how many answers a request has: `singleton`, `stream` or `chunked`.
        response_threshold_ns: how long an answer may take, after the request or another answer.
        latency: None where answers are not timed.
        allows_trace: whether somebody who traces a request learns what becomes of it here.
    """

    kind: str
    subject: str
    accounts: tuple[str, ...] = ()
    is_private: bool = False
    activated: frozenset[tuple[str, str]] = frozenset()
    account_token_position: int = 0
    response: str = "singleton"
    response_threshold_ns: int = 2 * MINUTE
    latency: LatencyOptions | None = None
    allows_trace: bool = False


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What an account takes from another one.

    Attributes:
        kind: `stream` or `service`.
        account: which one it is taken from.
        subject: there; within the subject of an export.
        to: here, with `$1` or `*` for the wildcards of `subject`; empty for the same.
        prefix: of a stream's subjects here; instead of `to`.
        is_sharing: whether a service is told who asks.
        allows_trace: whether somebody who traces a message of a stream learns what becomes of it
            here.
    """

    kind: str
    account: str
    subject: str
    to: str = ""
    prefix: str = ""
    is_sharing: bool = False
    allows_trace: bool = False

    @property
    def local_subject(self) -> str:
        """What it is called in the importing account."""
        if self.prefix:
            return f"{self.prefix.removesuffix('.')}.{self.subject}"
        return self.to or self.subject


@dataclass(frozen=True, slots=True)
class AccountOptions:
    """One account.

    Attributes:
        jetstream: None when the account may not use JetStream.
        exports: what other accounts may import.
        imports: what it takes from other accounts.
        mappings: as `ServerOptions.mappings`.
        claims: what its JWT says, None without an operator.
        trace_dest: where traces of messages that others follow go; empty for nowhere.
        trace_percent: what percentage of them is traced.
    """

    name: str
    users: tuple[UserOptions, ...] = ()
    jetstream: AccountJetStreamOptions | None = None
    default_permissions: Permissions | None = None
    max_connections: int = -1
    max_subscriptions: int = -1
    max_payload: int = -1
    exports: tuple[ExportOptions, ...] = ()
    imports: tuple[ImportOptions, ...] = ()
    mappings: tuple[SubjectMapping, ...] = ()
    claims: AccountClaims | None = None
    trace_dest: str = ""
    trace_percent: int = 100


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """An operator, whose accounts and users come with JWTs.

    Attributes:
        trusted_keys: who may sign accounts.
        preloaded: JWTs of accounts by their keys.
        resolver_dir: where JWTs of accounts are kept, and added while the server runs; empty if
            only the preloaded ones are known.
        may_delete: whether accounts can be removed while the server runs.
        default_sentinel: the JWT of clients that have none; empty for nobody.
        pinned_accounts: the only accounts that may be used; empty for all.
    """

    trusted_keys: tuple[str, ...] = ()
    preloaded: Mapping[str, str] = field(default_factory=dict)
    resolver_dir: str = ""
    may_delete: bool = False
    default_sentinel: str = ""
    pinned_accounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MappingDestination:
    """Where a mapped subject goes, and in what percentage of cases."""

    subject: str
    weight: int = 100
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class SubjectMapping:
    """A subject that is replaced on publish."""

    source: str
    destinations: tuple[MappingDestination, ...]


@dataclass(frozen=True, slots=True)
class JetStreamOptions:
    """The `jetstream` block.

    Attributes:
        store_dir: as given; empty for the temporary folder. `folder` is what is used.
        max_memory, max_file: bytes; -1 or 0 for what the machine has.
        sync_interval_ns: 0 acknowledges after the disk has the message (group commit, the default);
            more, as in the genuine server: acknowledges at once, and the disk is synced this often.
        max_ha_assets: only shown; it is for clusters.
        default_max_consumers: on a stream where nothing else limits them; 0 means 1,000, less means
            no limit.
        batches_per_stream, batches_total, batch_messages_max, batch_timeout_ns: for atomic and fast
            batches; 0 means the default.
        encryption_key: of everything stored, also a passphrase; empty for no encryption.
        previous_encryption_key: what it was, while it is being changed.
        cipher: `chacha` (ChaCha20-Poly1305) or `aes` (AES-256-GCM).
    """

    is_enabled: bool = False
    store_dir: str = ""
    max_memory: int = -1
    max_file: int = -1
    domain: str = ""
    sync_interval_ns: int = 0
    is_strict: bool = True
    max_ack_pending: int = -1
    max_request_batch: int = -1
    max_ha_assets: int = 0
    default_max_consumers: int = 0
    duplicate_window_ns: int = 0
    batches_per_stream: int = 0
    batches_total: int = 0
    batch_messages_max: int = 0
    batch_timeout_ns: int = 0
    max_buffered_size: int = 0
    max_buffered_messages: int = 0
    encryption_key: str = field(default="", repr=False)
    previous_encryption_key: str = field(default="", repr=False)
    cipher: str = "chacha"


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """A `tls` block.

    Attributes:
        greets_after_ns: how long INFO waits for a client that begins TLS first; 0 greets at once,
            -1 greets only through TLS (`handshake_first`).
    """

    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    is_verifying: bool = False
    is_mapping: bool = False
    timeout_ns: int = 2 * SECOND
    greets_after_ns: int = 0
    min_version: str = "1.2"
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[str, ...] = ()
    pinned_certs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WebsocketOptions:
    """The `websocket` block."""

    host: str = "0.0.0.0"
    port: int = 0
    is_without_tls: bool = False
    tls: TlsOptions | None = None
    is_same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    is_compressing: bool = False
    handshake_timeout_ns: int = 2 * SECOND
    jwt_cookie: str = ""
    user_cookie: str = ""
    password_cookie: str = ""
    token_cookie: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """All of it.

    Attributes:
        port: of clients; -1 takes any free one.
        server_name: empty for the server's id.
        http_host: of monitoring; empty for `host`.
        http_port: 0 for no monitoring, -1 for any free port.
        busy_poll_ns: how long the server stays awake for a client that waits for each answer.
        mappings: of the global account.
        operator: None where accounts are configured instead.
        config_file, config_digest: where the options come from; both empty without a file.
        warnings: what the file asks for and this server does not do, for the log.
    """

    host: str = "0.0.0.0"
    port: int = 4222
    client_advertise: str = ""
    server_name: str = ""
    server_tags: tuple[str, ...] = ()
    server_metadata: Mapping[str, str] = field(default_factory=dict)
    http_host: str = ""
    http_port: int = 0
    http_base_path: str = ""

    is_debugging: bool = False
    is_tracing: bool = False
    is_tracing_verbosely: bool = False
    is_tracing_headers: bool = False
    is_logging_time: bool = True
    is_logging_utc: bool = False
    log_file: str = ""
    log_size_limit: int = 0
    log_files_max: int = 0
    pid_file: str = ""
    ports_file_dir: str = ""

    max_control_line: int = limits.CONTROL_LINE_BYTES_MAX
    max_payload: int = limits.PAYLOAD_BYTES_MAX
    max_pending: int = limits.PENDING_BYTES_MAX
    max_connections: int = limits.CONNECTIONS_MAX
    max_subscriptions: int = 0
    max_subject_tokens: int = 0
    max_traced_message_length: int = 0
    max_closed_clients: int = 10_000
    ping_interval_ns: int = 2 * MINUTE
    ping_max: int = 2
    write_deadline_ns: int = 10 * SECOND
    busy_poll_ns: int = 150 * MICROSECOND
    lame_duck_duration_ns: int = 2 * MINUTE
    lame_duck_grace_period_ns: int = 10 * SECOND
    has_headers: bool = True

    authorization: AuthorizationOptions = AuthorizationOptions()
    accounts: tuple[AccountOptions, ...] = ()
    no_auth_user: str = ""
    system_account: str = SYSTEM_ACCOUNT
    operator: OperatorOptions | None = None
    mappings: tuple[SubjectMapping, ...] = ()
    jetstream: JetStreamOptions = JetStreamOptions()
    websocket: WebsocketOptions | None = None
    tls: TlsOptions | None = None
    is_plain_allowed: bool = False

    config_file: str = ""
    config_digest: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def auth_timeout_ns(self) -> int:
        """How long a client has for its CONNECT; the TLS handshake counts towards it."""
        usual = self.tls.timeout_ns + SECOND if self.tls is not None else 2 * SECOND
        return self.authorization.timeout_ns or usual
