"""JetStream of all accounts: opened at the start, given to accounts and limited as the
configuration says.

Part of the composition root: it picks the disk, encrypted or not, and the vaults on it. What an
account does with its streams is the catalog's business (`jetstream/catalog/catalog.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from jetstream_server.config.options import AccountJetStreamOptions, ServerOptions
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.account_limits import (
    DEFAULT_MAX_CONSUMERS,
    AccountLimits,
    ServerLimits,
)
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.ingest import IngestLimits
from jetstream_server.jetstream.open_batches import OpenBatches
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.account_links import has_own_api
from jetstream_server.node.accounts.api_watch import ApiWatch
from jetstream_server.node.accounts.domain_mapping import DomainMapping
from jetstream_server.node.auth.users import accounts_of
from jetstream_server.node.node import Node
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import Disk, OsDisk
from jetstream_server.store.disk.journal import Journal
from jetstream_server.store.disk.reserve import Reserve
from jetstream_server.store.disk.spare_descriptors import SpareDescriptors
from jetstream_server.store.disk.store_folder import ENCRYPTION_NAME, StoreFolder, open_folder
from jetstream_server.store.file import BLOCK_BYTES
from jetstream_server.store.vault import FileVault


def store_dir(options: ServerOptions) -> Path:
    """Return where streams are stored, as the genuine server has it where nothing is configured."""
    if options.jetstream.store_dir:
        return Path(options.jetstream.store_dir)
    import tempfile  # here: a server that is told where to store is smaller without it

    return Path(tempfile.gettempdir()) / "nats"


class AccountStreams:
    """The streams of all accounts of a server.

    Args:
        node: its accounts get their catalogs here.
        options: what the operator asked for, with JetStream enabled.
        log: notes for the operator: level and text.

    Attributes:
        commit: the queue in front of the disk.

    Raises:
        StoreError: the storage folder cannot be used.
    """

    def __init__(self, node: Node, options: ServerOptions, log: Callable[[str, str], None]) -> None:
        self._node = node
        self._options = options
        self._configured = accounts_of(options)
        self._log = log
        given = options.jetstream
        self._ingest_limits = IngestLimits(given.max_buffered_messages, given.max_buffered_size)
        self._batches = OpenBatches.limited(
            given.batches_per_stream,
            given.batches_total,
            given.batch_messages_max,
            given.batch_timeout_ns,
        )
        self._catalogs: list[Catalog] = []  # the limits of the server apply to all of them together
        # Of the accounts without JetStream; None for one that imports another's API.
        self._refusing: dict[str, Api | None] = {}
        self._mapped: set[str] = set()  # accounts that take requests by the name of the domain
        self._spares = SpareDescriptors()
        plain = OsDisk(self._spares)
        try:
            self._folder = open_folder(store_dir(options), plain, note=f"process {os.getpid()}")
        except BaseException:
            self._spares.release()
            raise
        try:
            log("INF", "Starting JetStream")
            log("INF", f'  Store Directory: "{self._folder.path}"')
            if self._folder.note:
                log("WRN", self._folder.note)
            journal = Journal(self._folder.path, plain)
            journal.load()
            if journal.damage:
                log("ERR", journal.damage)
                node.storage_damage = journal.damage
            if given.encryption_key and plain.read(self._folder.path / ENCRYPTION_NAME) is None:
                journal.place(sys.maxsize)  # there one sees that it is not encrypted
            self._disk, self._block_bytes = _disk_of(options, self._folder, plain, log)
            self.commit = GroupCommit(
                self._disk,
                lazily_ns=given.sync_interval_ns,
                reserve=Reserve(self._folder.path, plain),
                journal=journal,
            )
        except BaseException:
            self.close()
            raise

    def recover(self, now: int) -> None:
        """Open the streams of every account.

        Raises:
            StoreError: a stream cannot be read.
        """
        for account in self._node.accounts.values():
            self._open(account, now)

    def follow(self, options: ServerOptions, now: int) -> None:
        """Give accounts the JetStream and the limits that they are to have from now on."""
        self._options = options
        self._configured = accounts_of(options)
        for account in self._node.accounts.values():
            limits = self._limits_of(account.name)
            if account.catalog is None:
                if limits is not None or not self._goes_without(account):
                    self._open(account, now)
            elif limits is not None:
                account.catalog.limit(_account_limits(limits))

    def _goes_without(self, account: Account) -> bool:
        """Tell whether an account has been told already that it has no JetStream, and is answered
        as it is to be: what answers is the same after every change that can be followed, and to
        make it again for each of thousands of accounts takes half a second."""
        if account.name not in self._refusing:
            return False
        has_api = has_own_api(self._configured.get(account.name))
        return (self._refusing[account.name] is not None) == has_api

    def close(self) -> None:
        """Let another server have the folder."""
        self._folder.release()
        self._spares.release()

    def _open(self, account: Account, now: int) -> None:
        context = Context(
            account=account.name,
            server_name=self._node.name,
            domain=self._options.jetstream.domain,
            sublist=account.sublist,
            output=account.output,
            nuid=self._node.nuid,
            ingest_limits=self._ingest_limits,
            batches=self._batches,
            workload=self._node.workload,
            log=self._log,
            containment=account.containment,
            is_strict=self._options.jetstream.is_strict,
        )
        has_api = has_own_api(self._configured.get(account.name))
        if context.domain and account.name not in self._mapped and not self._is_system(account):
            # Accounts without JetStream are told so under either name.
            self._mapped.add(account.name)
            DomainMapping(account, context.domain).subscribe()
        refusing = self._refusing.pop(account.name, None)
        if refusing is not None:
            refusing.unsubscribe()
        limits = self._limits_of(account.name)
        if limits is None:
            refusing = None
            if has_api:
                refusing = Api.disabled(
                    context,
                    self._watch_of(account),
                    is_system=self._is_system(account),
                )
                refusing.subscribe()
            self._refusing[account.name] = refusing
            return
        vault = FileVault(
            self._folder.path,
            account.name,
            self.commit,
            self._disk,
            block_bytes=self._block_bytes,
        )
        catalog = account.catalog = Catalog(
            context,
            vault,
            _account_limits(limits),
            _server_limits(self._options),
            self._catalogs,
        )
        self._catalogs.append(catalog)
        catalog.recover(now)
        if has_api:
            Api(catalog, self._watch_of(account)).subscribe()
        if catalog.streams:
            messages = sum(stream.store.state().messages for stream in catalog.streams.values())
            self._log(
                "INF",
                f"  Recovered {len(catalog.streams):,} streams, {messages:,} messages"
                f" for account {account.name}",
            )

    def _is_system(self, account: Account) -> bool:
        return account.name == self._node.options.system_account

    def _watch_of(self, account: Account) -> ApiWatch | None:
        """Return who hears of requests to an account's API."""
        system = self._node.add_account(self._options.system_account)
        return ApiWatch(system, self._node.random) if account is not system else None

    def _limits_of(self, account: str) -> AccountJetStreamOptions | None:
        """Return what an account may store, None for nothing."""
        if account == self._options.system_account:
            return None
        given = self._configured.get(account)
        if given is None and self._options.operator is not None:
            return None
        return given.jetstream if given is not None else AccountJetStreamOptions()


def _disk_of(
    options: ServerOptions,
    folder: StoreFolder,
    plain: OsDisk,
    log: Callable[[str, str], None],
) -> tuple[Disk, int]:
    """Return the disk that the streams use, and how large their blocks get, in bytes."""
    given = options.jetstream
    if not given.encryption_key and plain.read(folder.path / ENCRYPTION_NAME) is None:
        return plain, BLOCK_BYTES
    # Imported here: most servers do not encrypt, and start sooner without the library.
    from jetstream_server.store.disk.cipher_disk import ENCRYPTED_BLOCK_BYTES, CipherDisk
    from jetstream_server.store.disk.keyring import open_keyring

    keyring = open_keyring(
        folder.path,
        plain,
        given.encryption_key,
        previous_key=given.previous_encryption_key,
        cipher=given.cipher,
    )
    log("INF", f"  Encryption: {keyring.cipher}")
    return CipherDisk(plain, keyring), ENCRYPTED_BLOCK_BYTES


def _server_limits(options: ServerOptions) -> ServerLimits:
    given = options.jetstream
    return ServerLimits(
        max_memory=given.max_memory if given.max_memory > 0 else -1,
        max_storage=given.max_file if given.max_file > 0 else -1,
        duplicate_window_ns=given.duplicate_window_ns or -1,
        max_ack_pending=given.max_ack_pending,
        max_request_batch=given.max_request_batch,
        default_max_consumers=given.default_max_consumers or DEFAULT_MAX_CONSUMERS,
    )


def _account_limits(given: AccountJetStreamOptions) -> AccountLimits:
    return AccountLimits(
        max_memory=given.max_memory,
        max_storage=given.max_store,
        max_streams=given.max_streams,
        max_consumers=given.max_consumers,
        max_ack_pending=given.max_ack_pending,
        memory_max_stream_bytes=given.memory_max_stream_bytes,
        storage_max_stream_bytes=given.store_max_stream_bytes,
        max_bytes_required=given.max_bytes_required,
        tiers={name: _account_limits(each) for name, each in given.tiers.items()},
    )
