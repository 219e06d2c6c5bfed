"""The composition root: the only place that picks concrete classes.

Start: lock the folder, recover the streams, listen, say so. Stop (SIGTERM, SIGINT): tell waiting
pulls, write everything out, close; exit code 0. SIGHUP has the configuration read again, SIGUSR2
moves clients on before the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import secrets
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING

from jetstream_server import NATS_VERSION, __version__
from jetstream_server.account_streams import AccountStreams, store_dir
from jetstream_server.base.clock import SystemClock, elapsed_ns
from jetstream_server.base.errors import ApiError, ConfigError
from jetstream_server.config.changes import changes
from jetstream_server.config.options import ServerOptions
from jetstream_server.core.containment import Containment
from jetstream_server.core.steps import InSteps, grouped
from jetstream_server.kernels import in_use
from jetstream_server.monitor.server_commands import ServerCommands
from jetstream_server.monitor.system_events import SystemEvents
from jetstream_server.monitor.system_services import SystemServices
from jetstream_server.net import listening, signals
from jetstream_server.net.busy_poll import has_core_to_spare
from jetstream_server.net.idle_memory import IdleMemory
from jetstream_server.net.listeners import Listeners
from jetstream_server.net.log import LogSettings, ServerLog
from jetstream_server.net.loop_errors import contain_callbacks
from jetstream_server.net.password_threads import PasswordThreads
from jetstream_server.net.process_files import process_files
from jetstream_server.net.pump import Pump
from jetstream_server.net.reloads import Reloads, WhenReloaded
from jetstream_server.node.accounts.account_changes import UNITS_OF_STEP, AccountChanges
from jetstream_server.node.auth.auth import Authenticator, Gatekeeper
from jetstream_server.node.auth.users import accounts_of, users_of
from jetstream_server.node.lame_duck import LameDuck
from jetstream_server.node.listener import Listener
from jetstream_server.node.node import Node
from jetstream_server.node.reload import Arrangement, arrange_accounts, reload
from jetstream_server.node.trace import Trace

if TYPE_CHECKING:
    from jetstream_server.net.monitor_http import MonitorHttp
    from jetstream_server.operator_accounts import Follow, OperatorAccounts

# How often a server in lame duck mode checks whether its clients have gone.
_FADING_SECONDS = 0.02


@dataclasses.dataclass(frozen=True, slots=True)
class _Reread:
    """A configuration that was read again.

    Attributes:
        authenticator: of its users, of whom there may be thousands; None where an operator's JWTs
            say who they are.
    """

    options: ServerOptions
    authenticator: Authenticator | None


class Server:
    """One server process.

    Args:
        options: what the operator asked for.
        log: where log lines go.
        reread: reads the configuration again, in another thread; None without a file.
    """

    def __init__(
        self,
        options: ServerOptions,
        log: ServerLog,
        reread: Callable[[], ServerOptions] | None = None,
    ) -> None:
        self.options = options
        self.log = log
        self._reread = reread or _no_file
        self._streams: AccountStreams | None = None
        self._operator_accounts: OperatorAccounts | None = None
        self._account_changes: AccountChanges | None = None  # of an operator
        self._reloads: Reloads[_Reread] | None = None
        self._fading: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        """Serve until told to stop; return the exit code.

        Raises:
            ConfigError: a port cannot be listened on.
            StoreError: the storage folder cannot be used.
        """
        clock = SystemClock()
        options = self.options = self._with_accounts_at_start(self.options, clock.now())
        self._announce()
        with contextlib.ExitStack() as stack:
            listeners = stack.enter_context(contextlib.closing(Listeners(options, self.log.write)))
            node = self._make_node(listeners)
            node.started_at = clock.now()
            node.chronicle = SystemEvents(node, node.started_at)
            self.log.write("INF", f"  Name:     {node.name}")
            self.log.write("INF", f"  ID:       {node.server_id}")
            if options.config_file:
                place = f"{options.config_file} ({options.config_digest})"
                self.log.write("INF", f"Using configuration file: {place}")
            if options.jetstream.is_enabled:
                self._streams = AccountStreams(node, options, self.log.write)
                stack.enter_context(contextlib.closing(self._streams))
                self._streams.recover(clock.now())
            commit = self._streams.commit if self._streams is not None else None
            busy_poll_ns = options.busy_poll_ns if has_core_to_spare() else 0
            pump = Pump(node, commit, clock, self._fail, busy_poll_ns=busy_poll_ns)
            self._reloads = Reloads(
                self._read_again, lambda read, told: self._take_reload(read, told, pump, listeners)
            )
            loop = asyncio.get_running_loop()
            contain_callbacks(loop, node.containment, clock, self._fail)
            node.password_checker = passwords = PasswordThreads(pump.wake)
            stack.callback(passwords.stop)
            stack.callback(IdleMemory(asyncio.get_running_loop(), pump.intake, pump.rest).stop)
            monitor = await self._monitor(pump)
            await listeners.open(pump)
            self._trap_signals(pump, listeners)
            pump.wake()
            urls = self._urls(listeners, monitor)
            with process_files(options.pid_file, options.ports_file_dir, urls):
                self.log.write("INF", "Server is ready")
                await self._ended.wait()
            self.log.write("INF", "Initiating Shutdown...")
            listeners.shut()
            await pump.stop()
            for connection in list(pump.connections.values()):
                connection.close()
            if monitor is not None:
                await monitor.stop()
            self.log.write("INF", "Server Exiting..")
        return self._exit_code

    def _with_accounts_at_start(self, options: ServerOptions, now: int) -> ServerOptions:
        """Return the options with the accounts that an operator's JWTs claim.

        Raises:
            ConfigError: the folder of JWTs cannot be used.
        """
        if options.operator is None:
            return options
        # Imported here: most servers have no operator, and start sooner without the models.
        from jetstream_server.operator_accounts import OperatorAccounts

        self._operator_accounts = OperatorAccounts(options.operator, self.log.write)
        return self._operator_accounts.with_accounts(options, now)

    def _announce(self) -> None:
        self.log.write("INF", "Starting nats-server")
        self.log.write("INF", f"  Version:  {NATS_VERSION} (jetstream-server {__version__})")
        if pure := in_use.pure():
            self.log.write(
                "WRN", f"  Kernels in pure Python, several times slower: {', '.join(pure)}"
            )
        for warning in self.options.warnings:
            self.log.write("WRN", warning)

    def _make_node(self, listeners: Listeners) -> Node:
        options = self.options
        # Not seeded from the clock: two servers started together must not share identifiers.
        chance = random.Random(secrets.randbits(128))
        note = self.log.write
        node = Node(
            options,
            _gatekeeper(options, note),
            chance,
            note,
            Containment(note),
            port=listeners.port,
            store_dir=str(store_dir(options)),
            clock=elapsed_ns,
        )
        node.listener = _advertised(node, options)
        self._set_trace(node)
        arrange_accounts(node, options)
        for account in node.accounts.values():
            SystemServices(node, account).subscribe()
        ServerCommands(node, self._reload).subscribe()
        self._serve_claims(node)
        return node

    def _set_trace(self, node: Node) -> None:
        """Have conversations logged, if the options ask for it."""
        options = self.options
        node.trace = node.protocol_trace = None
        if options.is_debugging or options.is_tracing:
            node.trace = Trace(
                self.log.write,
                options.max_traced_message_length,
                headers_only=options.is_tracing_headers,
            )
        if options.is_tracing:
            node.protocol_trace = node.trace

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

    def _urls(self, listeners: Listeners, monitor: MonitorHttp | None) -> dict[str, list[str]]:
        """Return where the server can be reached, by protocol."""
        urls = {"nats": [f"nats://{listening.host_port(self.options.host, listeners.port)}"]}
        if monitor is not None:
            urls["monitoring"] = [f"http://{monitor.address}"]
        if listeners.websocket_url:
            urls["websocket"] = [listeners.websocket_url]
        return urls

    def _trap_signals(self, pump: Pump, listeners: Listeners) -> None:
        actions: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: self._ended.set,
            signal.SIGINT: self._ended.set,
            signal.SIGHUP: lambda: self._reload(lambda wrong, now: None),
            signal.SIGUSR1: self.log.reopen,
            signal.SIGUSR2: lambda: self._enter_lame_duck(pump, listeners),
        }
        signals.trap(actions, self.log.write)

    # -- other settings ----------------------------------------------------------------------

    def _reload(self, told: WhenReloaded) -> None:
        """Have the configuration read again and followed; then say what was wrong."""
        assert self._reloads is not None, "there are clients, so the server runs"
        self._reloads.ask(told)

    def _read_again(self) -> _Reread:
        """Read the configuration; called in the thread."""
        options = self._reread()
        return _Reread(options, _authenticator(options) if options.operator is None else None)

    def _take_reload(
        self, read: _Reread | Exception, told: WhenReloaded, pump: Pump, listeners: Listeners
    ) -> None:
        """Follow a configuration that was read again, and the certificates that it names; after
        other changes of an operator's accounts, if some are under way.

        Args:
            told: of what was wrong with it, empty if nothing was, and the time. Unless an error of
                our own came up nothing has changed then.
        """
        now = pump.clock.now()
        if self._ended.is_set():
            told("the server is shutting down", now)
            return

        def finished(outcome: str | ApiError) -> None:
            pump.wake()
            told(outcome if isinstance(outcome, str) else outcome.description, now)

        steps = self._reload_in_steps(read, pump.node, listeners, now)
        if self._account_changes is None:
            self._go_on_reloading(grouped(steps, UNITS_OF_STEP), finished)
        else:
            self._account_changes.begin(steps, finished, size=0)
            pump.wake()

    def _go_on_reloading(self, steps: InSteps[str], finished: Callable[[str], None]) -> None:
        """Do the next of the steps of a reload; clients have turns between them."""
        if self._ended.is_set():
            finished("the server is shutting down")
            return
        try:
            next(steps)
        except StopIteration as end:
            finished(end.value)
        else:
            asyncio.get_running_loop().call_soon(self._go_on_reloading, steps, finished)

    def _reload_in_steps(
        self, read: _Reread | Exception, node: Node, listeners: Listeners, now: int
    ) -> Generator[int, None, str]:
        """Follow what was read again; return what was wrong. Give after each step what it took."""
        try:
            yield from self._follow_reread(read, node, listeners, now)
        except ConfigError as error:
            return str(error)
        return ""

    def _follow_reread(
        self, read: _Reread | Exception, node: Node, listeners: Listeners, now: int
    ) -> Generator[int, None, None]:
        """Follow what was read again, and log what became of it.

        Raises:
            ConfigError: it is wrong, or changes what cannot be changed.
        """
        try:
            if isinstance(read, Exception):
                raise read
            options, accounts, tokens = read.options, self._operator_accounts, {}
            if accounts is not None and options.operator is not None:
                tokens = yield from accounts.reloaded(options.operator)
                options = yield from accounts.with_accounts_of(tokens, options, now)
            said = changes(self.options, options)
            listener = _advertised(node, options)
            arrangement = Arrangement(node, options)
            yield from arrangement.make()
            terms = listeners.terms(options, listener)
            self.log.follow(LogSettings.of(options))
            if accounts is not None and options.operator is not None:
                yield from accounts.hold(tokens)
            self._follow(node, options, read.authenticator, now, arrangement)
            if self._account_changes is not None:
                yield from _joined(node)
        except ConfigError as error:
            text = str(error).rstrip("\n")
            self.log.write("ERR", f"Failed to reload server configuration: {text}")
            raise ConfigError(text) from None
        except Exception as error:
            incident = node.containment.contain(error, now)
            text = f"{incident}; it may be followed in part, reload it or start the server again"
            self.log.write("ERR", f"Failed to reload server configuration: {text}")
            raise ConfigError(text) from None
        node.listener = listener
        pins = listeners.pinned_certs
        listeners.adopt(terms, node)
        self._set_trace(node)
        for each in said:
            self.log.write("INF", f"Reloaded: {each}")
        self.log.write("INF", f"Reloaded server configuration ({options.config_digest})")
        if listeners.pinned_certs != pins:
            listeners.part_with_unpinned(node)

    def _follow(
        self,
        node: Node,
        options: ServerOptions,
        authenticator: Authenticator | None,
        now: int,
        arrangement: Arrangement,
    ) -> None:
        """Follow what options say about accounts and users.

        Args:
            authenticator: knows the users; None where an operator's JWTs say who they are.
            arrangement: of the accounts, made ready.
        """
        known = set(node.accounts)
        gatekeeper: Gatekeeper = authenticator or _gatekeeper(options, self.log.write)
        node.is_half_reloaded = True
        reload(node, options, gatekeeper, now, arrangement)
        self.options = options
        for name, account in node.accounts.items():
            if name not in known:
                SystemServices(node, account).subscribe()
        if self._streams is not None:
            self._streams.follow(options, now)
        node.is_half_reloaded = False

    def _serve_claims(self, node: Node) -> None:
        """Let the system account change an operator's accounts, if they can change."""
        accounts, operator = self._operator_accounts, self.options.operator
        if accounts is None or operator is None:
            return
        # Imported here: most servers have no operator, and start sooner without the models.
        from jetstream_server.monitor.claims_services import ClaimsServices

        system = node.accounts[node.options.system_account]
        self._account_changes = AccountChanges(system, node.workload)

        def prepare(tokens: Mapping[str, str], now: int) -> Generator[int, None, Follow]:
            options = yield from accounts.with_accounts_of(tokens, self.options, now)
            arrangement = Arrangement(node, options)
            yield from arrangement.make()

            def follow() -> Iterator[int]:
                self._follow(node, options, None, now, arrangement)
                yield from _joined(node)

            return follow

        accounts.prepare = prepare
        if accounts.is_changeable:
            ClaimsServices(node, operator, accounts, self._account_changes).subscribe()

    # -- lame duck ---------------------------------------------------------------------------

    def _enter_lame_duck(self, pump: Pump, listeners: Listeners) -> None:
        """Take no more clients, and end when those that are there have been moved on."""
        if pump.node.lame_duck is not None:
            return
        self.log.write("INF", "Entering lame duck mode, stop accepting new clients")
        listeners.shut()
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
        """The pump met an error of our own: say what it was, and stop before doing harm."""
        self.log.write("FTL", f"internal error: {type(error).__name__}: {error}")
        self._exit_code = 2
        self._ended.set()


def _advertised(node: Node, options: ServerOptions) -> Listener:
    """Return the listener as clients are told of it.

    Raises:
        ConfigError: its port is not a port.
    """
    host, port = listening.advertised(options.client_advertise, options.host, node.port)
    timeout_ns = options.auth_timeout_ns
    return dataclasses.replace(node.listener, host=host, port=port, auth_timeout_ns=timeout_ns)


def _joined(node: Node) -> Iterator[int]:
    """Wait until subscriptions that are there hear what is imported from now on, and clients are
    looked at under the new rules."""
    while node.links.are_joining or node.successions.are_any:
        yield UNITS_OF_STEP


def _gatekeeper(options: ServerOptions, note: Callable[[str, str], None]) -> Gatekeeper:
    if options.operator is None:
        return _authenticator(options)
    # Imported here: most servers have no operator, and start sooner without the models.
    from jetstream_server.node.auth.operator import OperatorGatekeeper

    return OperatorGatekeeper(options.operator, accounts_of(options), _nonce, note)


def _authenticator(options: ServerOptions) -> Authenticator:
    return Authenticator(users_of(options), options.no_auth_user, _nonce)


def _no_file() -> ServerOptions:
    raise ConfigError("can only reload config when a file is provided using -c or --config")


def _nonce() -> str:
    # 15 letters, as the genuine server's.
    return secrets.token_urlsafe(11)
