"""Rising numbers in parts, held against a list."""

from __future__ import annotations

from bisect import bisect_left
from random import Random

import pytest
from jetstream_server.structures import parted_numbers
from jetstream_server.structures.parted_numbers import PART, PartedNumbers


@pytest.mark.parametrize("seed", range(60))
def test_they_are_what_a_list_would_be(seed, monkeypatch):
    monkeypatch.setattr(parted_numbers, "_SHIFT", 2)
    monkeypatch.setattr(parted_numbers, "PART", 4)
    random = Random(seed)
    numbers, plain, at = PartedNumbers(), list[int](), 0
    for _ in range(120):
        match random.randrange(6):
            case 0 | 1:
                at += random.randint(1, 3)
                numbers.append(at)
                plain.append(at)
            case 2:
                more = [at + step for step in range(1, random.randrange(12))]
                at = more[-1] if more else at
                numbers.extend(more)
                plain += more
            case 3 if plain:
                assert numbers.pop() == plain.pop()
            case 4:
                count = random.randrange(len(plain) + 1)
                taken = numbers.take_front(count)
                assert all(len(part) == 4 for part in taken) and 4 * len(taken) <= count
                assert count - 4 * len(taken) < 4 or len(numbers) <= 4
                assert [each for part in taken for each in part] == plain[: 4 * len(taken)]
                del plain[: 4 * len(taken)]
        assert len(numbers) == len(plain) and list(numbers) == plain
        assert [numbers[place] for place in range(len(plain))] == plain
        assert max(map(len, numbers.parts)) <= 4
        if plain:
            assert numbers.last == plain[-1]
        start, stop = random.randrange(len(plain) + 5), random.randrange(len(plain) + 9)
        assert numbers.between(start, stop) == plain[start:stop]
        wanted = random.randint(0, at + 2)
        assert numbers.find(wanted) == bisect_left(plain, wanted)


def test_no_list_becomes_large():
    numbers = PartedNumbers(range(3 * PART))
    assert [len(part) for part in numbers.parts] == [PART] * 3
    numbers.append(3 * PART)
    assert len(numbers.parts) == 4 and numbers[3 * PART] == 3 * PART
    assert numbers.pop() == 3 * PART and len(numbers.parts) == 3
