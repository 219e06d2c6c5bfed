"""The composition root: the only place that picks concrete classes.

Start: lock the folder, recover the streams, listen, say so. Stop (SIGTERM, SIGINT): tell waiting
pulls, write everything out, close; exit code 0. SIGHUP has the configuration read again, SIGUSR2
has clients move on before the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import os
import random
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jetstream_server import API_LEVEL, NATS_VERSION, __version__
from jetstream_server.base.clock import SystemClock
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.changes import changes
from jetstream_server.config.options import AccountJetStreamOptions, ServerOptions, WebsocketOptions
from jetstream_server.jetstream.account_limits import AccountLimits, ServerLimits
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog import Catalog
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.open_batches import OpenBatches
from jetstream_server.jetstream.streams.ingest import IngestLimits
from jetstream_server.monitor.server_commands import ServerCommands
from jetstream_server.monitor.system_events import SystemEvents
from jetstream_server.monitor.system_services import SystemServices
from jetstream_server.net import listener as listening
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.idle_memory import IdleMemory
from jetstream_server.net.log import LogSettings, ServerLog
from jetstream_server.net.pump import Pump
from jetstream_server.node.account import Account
from jetstream_server.node.account_links import has_own_api
from jetstream_server.node.auth import Authenticator
from jetstream_server.node.domain_mapping import DomainMapping
from jetstream_server.node.lame_duck import LameDuck
from jetstream_server.node.node import Node, NodeSettings
from jetstream_server.node.reload import arrange_accounts, reload
from jetstream_server.node.trace import Trace
from jetstream_server.node.users import accounts_of, users_of
from jetstream_server.store.commit import GroupCommit
from jetstream_server.store.disk import Disk, OsDisk
from jetstream_server.store.file import BLOCK_BYTES
from jetstream_server.store.reserve import Reserve
from jetstream_server.store.store_folder import ENCRYPTION_NAME, open_folder
from jetstream_server.store.vault import FileVault

if TYPE_CHECKING:
    from jetstream_server.net.monitor_http import MonitorHttp

# What the genuine server's platform calls them.
_SIGNAL_WORDS = {
    signal.SIGTERM: "terminated",
    signal.SIGINT: "interrupt",
    signal.SIGHUP: "hangup",
    signal.SIGUSR1: "user defined signal 1",
    signal.SIGUSR2: "user defined signal 2",
}
# How often a server that is fading looks whether its clients have gone.
_FADING_SECONDS = 0.02


class Server:
    """One server process.

    Args:
        options: what the operator asked for.
        log: where log lines go.
        reread: reads the configuration again; None without a file.
    """

    def __init__(
        self,
        options: ServerOptions,
        log: ServerLog,
        reread: Callable[[], ServerOptions] | None = None,
    ) -> None:
        self.options = options
        self.log = log
        given = options.jetstream
        self._ingest_limits = IngestLimits(given.max_buffered_messages, given.max_buffered_size)
        self._batches = OpenBatches.limited(
            given.batches_per_stream,
            given.batches_total,
            given.batch_messages_max,
            given.batch_timeout_ns,
        )
        self._websocket_url = ""
        self._reread = reread
        self._make_vault: Callable[[str], FileVault] | None = None
        self._refusing: dict[str, Api] = {}  # of the accounts without JetStream
        self._fading: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        """Serve until told to stop; return the exit code.

        Raises:
            ConfigError: a port cannot be listened on.
            StoreError: the storage folder cannot be used.
        """
        options = self.options
        clock = SystemClock()
        self._announce()
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(
                contextlib.closing(listening.bind(options.host, options.port))
            )
            _, port = listening.address_of(listener)
            node = self._make_node(options.host, port)
            node.started_at = clock.now()
            node.chronicle = SystemEvents(node, node.started_at)
            self.log.write("INF", f"  Name:     {node.name}")
            self.log.write("INF", f"  ID:       {node.server_id}")
            commit = (
                self._open_jetstream(node, clock.now(), stack)
                if options.jetstream.is_enabled
                else None
            )
            pump = Pump(node, commit, clock, self._fail)
            stack.callback(IdleMemory(asyncio.get_running_loop(), pump.intake).stop)
            monitor = await self._monitor(pump)
            servers = await self._listen(pump, listener, stack)
            self._trap_signals(pump, servers)
            pump.wake()
            with self._files(port, monitor):
                self.log.write("INF", "Server is ready")
                await self._ended.wait()
            self.log.write("INF", "Initiating Shutdown...")
            for server in servers:
                server.close()
            await pump.stop()
            for connection in list(pump.connections.values()):
                connection.close()
            if monitor is not None:
                await monitor.stop()
            self.log.write("INF", "Server Exiting..")
        return self._exit_code

    def _announce(self) -> None:
        self.log.write("INF", "Starting nats-server")
        self.log.write("INF", f"  Version:  {NATS_VERSION} (jetstream-spark {__version__})")
        for warning in self.options.warnings:
            self.log.write("WRN", warning)

    def _make_node(self, host: str, port: int) -> Node:
        options = self.options
        settings = NodeSettings(
            server_name=options.server_name,
            host=host,
            port=port,
            max_payload=options.max_payload,
            max_control_line=options.max_control_line,
            max_pending=options.max_pending,
            max_connections=options.max_connections,
            max_subscriptions=options.max_subscriptions,
            ping_interval_ns=options.ping_interval_ns,
            ping_max=options.ping_max,
            auth_timeout_ns=options.authorization.timeout_ns,
            version=NATS_VERSION,
            api_level=API_LEVEL,
            domain=options.jetstream.domain,
            jetstream=options.jetstream.is_enabled,
            system_account=options.system_account,
            store_dir=options.jetstream.store_dir or str(Path(tempfile.gettempdir()) / "nats"),
            options=options,
        )
        # Not seeded from the clock: two servers started together must not share identifiers.
        chance = random.Random(secrets.randbits(128))
        node = Node(settings, _authenticator(options), chance, self.log.write)
        self._advertise(node)
        self._set_trace(node)
        arrange_accounts(node, options)
        for account in node.accounts.values():
            SystemServices(node, account).subscribe()
        ServerCommands(node, lambda now: self._reload(node, now)).subscribe()
        return node

    def _advertise(self, node: Node) -> None:
        settings = node.settings
        host, port = listening.advertised(
            self.options.client_advertise, settings.host, settings.port
        )
        node.door = dataclasses.replace(node.door, host=host, port=port)

    def _set_trace(self, node: Node) -> None:
        """Have conversations logged, if the options ask for it."""
        options = self.options
        node.trace = node.protocol_trace = None
        if options.is_debugging or options.is_tracing:
            node.trace = Trace(self.log.write, options.max_traced_message_length)
        if options.is_tracing:
            node.protocol_trace = node.trace

    def _open_jetstream(self, node: Node, now: int, stack: contextlib.ExitStack) -> GroupCommit:
        """Open the storage folder and recover every account's streams."""
        options = self.options.jetstream
        root = Path(options.store_dir or Path(tempfile.gettempdir()) / "nats")
        plain = OsDisk()
        folder = open_folder(root, plain, note=f"process {os.getpid()}")
        stack.callback(folder.release)
        self.log.write("INF", "Starting JetStream")
        self.log.write("INF", f'  Store Directory: "{folder.path}"')
        disk, block_bytes = self._encrypted(folder.path, plain)
        reserve = Reserve(folder.path, plain)
        commit = GroupCommit(disk, lazily_ns=options.sync_interval_ns, reserve=reserve)

        def make_vault(account: str) -> FileVault:
            return FileVault(folder.path, account, commit, disk, block_bytes=block_bytes)

        self._make_vault = make_vault
        for account in node.accounts.values():
            limits = self._jetstream_of(account.name)
            self._open_account(node, account, make_vault(account.name), limits, now)
        return commit

    def _jetstream_of(self, account: str) -> AccountJetStreamOptions | None:
        """Return what an account may store, None for nothing."""
        if account == self.options.system_account:
            return None
        given = accounts_of(self.options).get(account)
        return given.jetstream if given is not None else AccountJetStreamOptions()

    def _encrypted(self, root: Path, plain: OsDisk) -> tuple[Disk, int]:
        """Return the disk that the streams use, and how large their blocks get."""
        options = self.options.jetstream
        if not options.encryption_key and plain.read(root / ENCRYPTION_NAME) is None:
            return plain, BLOCK_BYTES
        # Imported here: most servers do not encrypt, and start sooner without the library.
        from jetstream_server.store.cipher_disk import ENCRYPTED_BLOCK_BYTES, CipherDisk
        from jetstream_server.store.keyring import open_keyring

        keyring = open_keyring(
            root,
            plain,
            options.encryption_key,
            previous_key=options.previous_encryption_key,
            cipher=options.cipher,
        )
        self.log.write("INF", f"  Encryption: {keyring.cipher}")
        return CipherDisk(plain, keyring), ENCRYPTED_BLOCK_BYTES

    def _open_account(
        self,
        node: Node,
        account: Account,
        vault: FileVault,
        limits: AccountJetStreamOptions | None,
        now: int,
    ) -> None:
        context = Context(
            account=account.name,
            server_name=node.name,
            domain=self.options.jetstream.domain,
            sublist=account.sublist,
            output=account.output,
            nuid=node.nuid,
            ingest_limits=self._ingest_limits,
            batches=self._batches,
            log=self.log.write,
        )
        has_api = has_own_api(accounts_of(self.options).get(account.name))
        refusing = self._refusing.pop(account.name, None)
        if refusing is not None:
            refusing.unsubscribe()
        if limits is None:
            if has_api:
                self._refusing[account.name] = Api.disabled(context)
                self._refusing[account.name].subscribe()
            return
        catalog = account.catalog = Catalog(
            context, vault, _account_limits(limits), self._server_limits()
        )
        catalog.recover(now)
        if has_api:
            Api(catalog).subscribe()
        if context.domain:
            DomainMapping(account, context.domain).subscribe()
        if catalog.streams:
            messages = sum(stream.store.state().messages for stream in catalog.streams.values())
            self.log.write(
                "INF",
                f"  Recovered {len(catalog.streams):,} streams, {messages:,} messages"
                f" for account {account.name}",
            )

    def _server_limits(self) -> ServerLimits:
        options = self.options.jetstream
        return ServerLimits(
            max_memory=options.max_memory if options.max_memory > 0 else -1,
            max_storage=options.max_file if options.max_file > 0 else -1,
            duplicate_window_ns=options.duplicate_window_ns or -1,
            max_ack_pending=options.max_ack_pending,
            max_request_batch=options.max_request_batch,
        )

    async def _listen(
        self, pump: Pump, listener: socket.socket, stack: contextlib.ExitStack
    ) -> list[asyncio.Server]:
        """Let clients in: by the socket that is bound, and by WebSocket where configured."""
        servers: list[asyncio.Server] = []
        if self.options.websocket is not None and self.options.websocket.port:
            servers.append(await self._listen_for_websockets(pump, self.options.websocket, stack))
        host, port = listening.address_of(listener)
        make_connection: Callable[[], ClientConnection] = functools.partial(ClientConnection, pump)
        if self.options.tls is not None:
            # Imported here: most servers are without, and start sooner.
            from jetstream_server.net.entrance import client_entrance
            from jetstream_server.net.layered_connection import LayeredConnection

            entrance = client_entrance(self.options, self.options.tls, pump.node.door)
            make_connection = functools.partial(LayeredConnection, pump, entrance)
        servers.append(await listening.serve(listener, make_connection))
        address = listening.host_port(host, port)
        self.log.write("INF", f"Listening for client connections on {address}")
        if self.options.tls is not None:
            word = "available" if self.options.is_plain_allowed else "required"
            self.log.write("INF", f"TLS {word} for client connections")
            if self.options.tls.greets_after_ns < 0:
                who = 'Clients that are not using "TLS Handshake First" option'
                self.log.write("WRN", f"{who} will fail to connect")
        return servers

    async def _listen_for_websockets(
        self, pump: Pump, options: WebsocketOptions, stack: contextlib.ExitStack
    ) -> asyncio.Server:
        from jetstream_server.net.entrance import websocket_entrance
        from jetstream_server.net.layered_connection import LayeredConnection

        listener = stack.enter_context(
            contextlib.closing(listening.bind(options.host, options.port, "websocket port"))
        )
        host, port = listening.address_of(listener)
        entrance = websocket_entrance(self.options, options, port)
        make_connection = functools.partial(LayeredConnection, pump, entrance)
        server = await listening.serve(listener, make_connection)
        scheme = "ws" if options.tls is None else "wss"
        self._websocket_url = f"{scheme}://{listening.host_port(host, port)}"
        self.log.write("INF", f"Listening for websocket clients on {self._websocket_url}")
        if options.tls is None:
            text = "Websocket not configured with TLS. DO NOT USE IN PRODUCTION!"
            self.log.write("WRN", text)
        return server

    async def _monitor(self, pump: Pump) -> MonitorHttp | None:
        """Serve monitoring where a port was asked for."""
        if self.options.http_port == 0:
            return None
        # Imported here: the web libraries would double the time a server takes to start.
        from jetstream_server.net.monitor_http import MonitorHttp

        listener = listening.bind(
            self.options.http_host or self.options.host, self.options.http_port, "monitor port"
        )
        monitor = MonitorHttp(pump, listener)
        await monitor.start()
        self.log.write("INF", f"Starting http monitor on {monitor.address}")
        return monitor

    @contextlib.contextmanager
    def _files(self, port: int, monitor: MonitorHttp | None) -> Iterator[None]:
        """Keep the pid file and the ports file while serving."""
        options = self.options
        if options.pid_file:
            Path(options.pid_file).write_text(str(os.getpid()))
        ports: Path | None = None
        if options.ports_file_dir:
            ports = Path(options.ports_file_dir) / f"nats-server_{os.getpid()}.ports"
            url = f"nats://{listening.host_port(options.host, port)}"
            urls = {"nats": [url]}
            if monitor is not None:
                urls["monitoring"] = [f"http://{monitor.address}"]
            if self._websocket_url:
                urls["websocket"] = [self._websocket_url]
            ports.write_text(json.dumps(urls, separators=(",", ":")))
        try:
            yield
        finally:
            if ports is not None:
                ports.unlink(missing_ok=True)

    def _trap_signals(self, pump: Pump, servers: list[asyncio.Server]) -> None:
        actions: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: self._ended.set,
            signal.SIGINT: self._ended.set,
            signal.SIGHUP: lambda: self._on_hangup(pump),
            signal.SIGUSR1: self.log.reopen,
            signal.SIGUSR2: lambda: self._enter_lame_duck(pump, servers),
        }
        loop = asyncio.get_running_loop()
        for number, act in actions.items():
            loop.add_signal_handler(number, self._trapped, number, act)

    def _trapped(self, number: signal.Signals, act: Callable[[], None]) -> None:
        self.log.write("INF", f'Trapped "{_SIGNAL_WORDS[number]}" signal')
        act()

    # -- other settings ----------------------------------------------------------------------

    def _on_hangup(self, pump: Pump) -> None:
        with contextlib.suppress(ConfigError):  # it has been logged
            self._reload(pump.node, pump.clock.now())
        pump.wake()

    def _reload(self, node: Node, now: int) -> None:
        """Read the configuration again and follow it.

        Raises:
            ConfigError: it is wrong, or changes what cannot be changed; nothing has changed then.
        """
        try:
            if self._reread is None:
                raise ConfigError(
                    "can only reload config when a file is provided using -c or --config"
                )
            options = self._reread()
            said = changes(self.options, options)
            self.log.follow(LogSettings.of(options))
            known = set(node.accounts)
            reload(node, options, _authenticator(options))
        except ConfigError as error:
            text = str(error).rstrip("\n")
            self.log.write("ERR", f"Failed to reload server configuration: {text}")
            raise ConfigError(text) from None
        self.options = options
        self._advertise(node)
        self._set_trace(node)
        for name, account in node.accounts.items():
            if name not in known:
                SystemServices(node, account).subscribe()
        self._follow_jetstream(node, now)
        for each in said:
            self.log.write("INF", f"Reloaded: {each}")
        self.log.write("INF", f"Reloaded server configuration ({options.config_digest})")

    def _follow_jetstream(self, node: Node, now: int) -> None:
        """Give accounts the JetStream and the limits that they have from now on."""
        if self._make_vault is None:
            return
        for account in node.accounts.values():
            limits = self._jetstream_of(account.name)
            if account.catalog is None:
                self._open_account(node, account, self._make_vault(account.name), limits, now)
            elif limits is not None:
                account.catalog.limits = _account_limits(limits)

    # -- lame duck ---------------------------------------------------------------------------

    def _enter_lame_duck(self, pump: Pump, servers: list[asyncio.Server]) -> None:
        """Take no more clients, and end when those that are there have been moved on."""
        if pump.node.lame_duck is not None:
            return
        self.log.write("INF", "Entering lame duck mode, stop accepting new clients")
        for server in servers:
            server.close()
        duck = pump.node.enter_lame_duck(pump.clock.now())
        pump.wake()
        self._fading = asyncio.get_running_loop().create_task(self._fade(pump, duck))

    async def _fade(self, pump: Pump, duck: LameDuck) -> None:
        """End when no client is left; the node closes them in its turns."""
        is_said = False
        while pump.connections:
            if duck.has_begun_closing and not is_said:
                is_said = True
                self.log.write("INF", "Closing existing clients")
            await asyncio.sleep(_FADING_SECONDS)
        self._ended.set()

    def _fail(self, error: BaseException) -> None:
        """The pump met an error that is ours: say what it was, and stop before doing harm."""
        self.log.write("FTL", f"internal error: {type(error).__name__}: {error}")
        self._exit_code = 2
        self._ended.set()


def _authenticator(options: ServerOptions) -> Authenticator:
    # 15 letters, as the genuine server's.
    return Authenticator(users_of(options), options.no_auth_user, lambda: secrets.token_urlsafe(11))


def _account_limits(options: AccountJetStreamOptions) -> AccountLimits:
    return AccountLimits(
        max_memory=options.max_memory,
        max_storage=options.max_store,
        max_streams=options.max_streams,
        max_consumers=options.max_consumers,
        max_ack_pending=options.max_ack_pending,
        memory_max_stream_bytes=options.memory_max_stream_bytes,
        storage_max_stream_bytes=options.store_max_stream_bytes,
        max_bytes_required=options.max_bytes_required,
    )
