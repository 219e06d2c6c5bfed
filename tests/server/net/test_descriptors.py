"""Descriptors: the limit is raised, and the last ones are not for clients."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest
from jetstream_server.net.descriptors import RESERVED_MAX, Descriptors


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """Return the limits of this process, which are put back afterwards."""
    found = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield found
    resource.setrlimit(resource.RLIMIT_NOFILE, found)


def test_the_limit_is_raised(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    found = Descriptors()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    assert found.limit == hard or hard == resource.RLIM_INFINITY
    assert found.reserved == min(RESERVED_MAX, found.limit // 2)


def test_the_last_ones_are_not_for_clients() -> None:
    found = Descriptors()
    with open(os.devnull) as null:
        next_one = os.dup(null.fileno())
        os.close(next_one)
        assert found.next_number(null.fileno()) == next_one
        os.fstat(null.fileno())  # it was only looked at
    found.limit = next_one + found.reserved
    assert found.are_for_clients(next_one - 1) and not found.are_for_clients(next_one)
    assert found.next_number(-1) == found.limit


def test_most_are_given_out_before_they_are_scarce() -> None:
    found = Descriptors()
    found.limit, found.reserved = 500, 100
    assert not found.are_scarce(300) and found.are_scarce(301)


def test_room_is_made_where_there_is_some(limits: tuple[int, int]) -> None:
    found = Descriptors()
    with open(os.devnull) as null:
        before = found.next_number(null.fileno())
        found.make_room(null.fileno())
        assert found.next_number(null.fileno()) == before, "none is taken"
        found.limit = limits[1] + 1
        found.make_room(null.fileno())  # there are not so many
        assert found.next_number(null.fileno()) == before
