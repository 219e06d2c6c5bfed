"""What the streams of an account hold, and may hold: by the limits of the account and the server.

Stores count what they hold in a tally (`store/tally.py`), so that a publish is held against the
limits without asking every stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.account_limits import AccountLimits, ServerLimits
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.contents import Allowance
from jetstream_server.store.tally import Tally


@dataclass(slots=True)
class Usage:
    """What the streams of an account hold and have reserved.

    Attributes:
        memory: bytes in memory streams.
        storage: bytes in file streams.
        reserved_memory: sum of max_bytes of memory streams.
        reserved_storage: sum of max_bytes of file streams.
    """

    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0


class Metering:
    """The bytes of one account.

    Args:
        limits: of the account.
        server_limits: of the server.
        streams: the account's, by name; they come and go.
        peers: returns the meterings of the server's other accounts.
    """

    def __init__(
        self,
        limits: AccountLimits,
        server_limits: ServerLimits,
        streams: Mapping[str, Stream],
        peers: Callable[[], Iterable[Metering]],
    ) -> None:
        self.limits = limits
        self._server_limits = server_limits
        self._streams = streams
        self._peers = peers
        self._memory, self._storage = Tally(), Tally()

    def admit(self, stream: Stream) -> None:
        """Count what a stream holds; where there are limits, have it ask before it takes more."""
        stream.store.count_in(self._memory if stream.config.is_memory else self._storage)
        stream.contents.allowance = self.allowance(stream.config)

    def dismiss(self, stream: Stream) -> None:
        """Stop counting a stream."""
        stream.store.count_in(None)

    def held_bytes(self, *, memory: bool) -> int:
        """Return what all streams of one kind of storage hold."""
        return self._memory.bytes if memory else self._storage.bytes

    def allowance(self, config: StreamConfig) -> Allowance | None:
        """Return what tells whether such a stream may hold more, None without limits."""
        memory = config.is_memory
        if not self._is_metered(memory=memory):
            return None
        return lambda size: self._refusal_of(size, memory=memory)

    def usage(self) -> Usage:
        """Return what the streams hold and have reserved."""
        return Usage(
            memory=self.held_bytes(memory=True),
            storage=self.held_bytes(memory=False),
            reserved_memory=self._reserved(memory=True),
            reserved_storage=self._reserved(memory=False),
        )

    def _is_metered(self, *, memory: bool) -> bool:
        return (
            self.limits_of_streams.max_usage(memory=memory) >= 0
            or self._server_limits.max_usage(memory=memory) >= 0
        )

    def _refusal_of(self, size: int, *, memory: bool) -> ApiError | None:
        """Return why `size` more bytes may not be stored, None when they may.

        See docs/reference/accounts.md#jetstream-of-an-account.
        """
        held = self.held_bytes(memory=memory)
        largest = self.limits_of_streams.max_usage(memory=memory)
        if 0 <= largest < held + size:
            return errors.ACCOUNT_RESOURCES_EXCEEDED()
        largest = self._server_limits.max_usage(memory=memory)
        if largest >= 0:
            everybody = sum(peer.held_bytes(memory=memory) for peer in self._peers())
            if held + everybody > largest:
                return errors.INSUFFICIENT_RESOURCES()
        return None

    def check_reservation(self, config: StreamConfig, *, is_twice: bool = False) -> None:
        """Refuse a stream for which there is no room beside what others have reserved.

        Args:
            is_twice: the server must have room for it in addition to the stream that already has
                its name.

        Raises:
            ApiError: 10120, 10026, 10028, 10047.
        """
        memory = config.is_memory
        limits = self.limits_for(config)
        if 0 < limits.max_consumers < config.max_consumers:
            raise errors.MAXIMUM_CONSUMERS_LIMIT()
        # A stream without max_bytes reserves next to nothing, but there must be room for that.
        wanted = config.max_bytes if config.max_bytes >= 0 else 1
        if not self.limits.tiers:  # theirs are for each replica
            wanted *= max(config.num_replicas, 1)
        largest = limits.max_usage(memory=memory)
        is_beyond = largest >= 0 and largest < wanted + (
            0 if self.is_of_no_tier_here(config) else self._reserved(config.name, memory=memory)
        )
        largest = self._server_limits.max_usage(memory=memory)
        if largest >= 0 and not is_beyond:
            mine = self._reserved("" if is_twice else config.name, memory=memory)
            everybody = mine + sum(peer._reserved(memory=memory) for peer in self._peers())
            is_beyond = largest < everybody + wanted
        if is_beyond:
            if memory:
                raise errors.MEMORY_RESOURCES_EXCEEDED()
            raise errors.STORAGE_RESOURCES_EXCEEDED()

    def is_of_no_tier_here(self, config: StreamConfig) -> bool:
        """Tell whether a stream belongs to a tier of streams with replicas; there are none here."""
        return bool(self.limits.tiers) and config.num_replicas > 1

    def limits_for(self, config: StreamConfig) -> AccountLimits:
        """Return the limits of streams with so many replicas.

        Raises:
            ApiError: 10120: there can be none.
        """
        limits = self.limits.tier(config.num_replicas)
        if limits is None:
            raise errors.NO_LIMITS()
        return limits

    @property
    def limits_of_streams(self) -> AccountLimits:
        """The limits of the streams that can be here: they have no replicas."""
        return self.limits.tier(1) or AccountLimits()

    def _reserved(self, besides: str = "", *, memory: bool) -> int:
        configs = [stream.contents.config for stream in self._streams.values()]
        return sum(
            config.max_bytes
            for config in configs
            if config.max_bytes > 0 and config.is_memory == memory and config.name != besides
        )
