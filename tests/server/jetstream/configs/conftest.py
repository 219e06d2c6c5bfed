"""New consumers as requests ask for them: what is made of them, or why they are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.configs.consumer_checks import check
from jetstream_server.jetstream.configs.consumer_config import (
    ConsumerBounds,
    ConsumerConfig,
    with_defaults,
)
from jetstream_server.jetstream.configs.stream_config import StreamConfig

STREAM = StreamConfig(name="S", subjects=["s.>"])
BOUNDS = ConsumerBounds()


@pytest.fixture(scope="session")
def resolve() -> Callable[..., ConsumerConfig]:
    """Return what fills in the defaults of a new consumer and checks it."""

    def resolve(
        stream: StreamConfig = STREAM,
        bounds: ConsumerBounds = BOUNDS,
        *,
        pedantic: bool = False,
        **fields: Any,
    ) -> ConsumerConfig:
        config = with_defaults(ConsumerConfig(**fields), stream, bounds, pedantic=pedantic)
        check(config, stream, bounds)
        return config

    return resolve


@pytest.fixture(scope="session")
def refusal(resolve: Callable[..., ConsumerConfig]) -> Callable[..., tuple[int, str]]:
    """Return what gives the error of a new consumer that must be refused."""

    def refusal(**asked: Any) -> tuple[int, str]:
        with pytest.raises(ApiError) as caught:
            resolve(**asked)
        return caught.value.err_code, caught.value.description

    return refusal
