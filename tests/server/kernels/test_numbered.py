"""The numbered kernel: numbers by sequence in pages, against a dictionary, and ranks against a set
of pairs."""

from __future__ import annotations

import sys
from array import array
from itertools import compress
from random import Random
from typing import Any

import pytest

SEQUENCE_MAX = (1 << 64) - 1


@pytest.fixture(scope="module")
def kernel(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.numbered")


def words(some: Any) -> array[int]:
    return array("Q", some)


def chosen(random: Random, reach: int) -> array[int]:
    count = random.choice([0, 1, 1, 2, 5, 30])
    match random.randrange(5):
        case 0:
            first = random.randrange(reach)
            return words(range(first, first + count))
        case 1:
            return words(sorted(random.randrange(reach) for _ in range(count)))
        case 2:
            return words(sorted((random.randrange(reach) for _ in range(count)), reverse=True))
        case 3:
            return words(random.choice([0, SEQUENCE_MAX, 1 << 63]) for _ in range(count))
        case _:
            return words(random.randrange(reach) for _ in range(count))


def assert_same(held: Any, model: dict[int, int], random: Random, reach: int) -> None:
    """It says of everything what the model says."""
    rising = sorted(model)
    assert len(held) == len(model)
    sequences, numbers = held.columns()
    assert sequences.tolist() == rising == list(held)
    assert numbers.tolist() == [model[each] for each in rising]
    asked = chosen(random, reach)
    assert held.numbers(asked).tolist() == [model.get(each, 0) for each in asked]
    assert held.without(asked).tolist() == [each for each in asked if each not in model]
    number = random.choice([*model.values(), 7])
    same = [each for each in asked if model.get(each) == number]
    assert held.numbered(asked, number).tolist() == same
    flags = [model.get(each) == number + at for at, each in enumerate(asked)]
    assert list(held.follow(asked, number)) == flags
    assert held.following(asked, number).tolist() == list(compress(asked, flags))
    start, stop = random.randrange(reach), random.choice([random.randrange(reach), 1 << 65])
    within = [each for each in rising if start <= each < stop]
    sequences, numbers = held.within(start, stop)
    assert sequences.tolist() == within
    assert numbers.tolist() == [model[each] for each in within]
    one = random.choice([random.randrange(reach), 1 << 64, -1])
    assert held.get(one) == model.get(one, 0)
    assert (one in held) == (one in model)


@pytest.mark.parametrize("seed", range(60))
def test_sequences_have_the_numbers_they_were_given(kernel: Any, seed: int) -> None:
    random = Random(seed)
    reach = random.choice([20, 300, 100_000])
    held = kernel.NumberedSequences(random.choice([2, 4, 8, 64, 1024]))
    model: dict[int, int] = {}
    copies: list[tuple[Any, dict[int, int]]] = []
    for step in range(1, 200):
        some = chosen(random, reach)
        match random.choice(["all", "all", "on", "assign", "pop", "pop", "copy", "most", "clear"]):
            case "all":
                held.number_all(some, step)
                model |= dict.fromkeys(some, step)
            case "on":
                held.number_on(some, step)
                model.update(zip(some, range(step, step + len(some)), strict=True))
            case "assign":
                numbers = words(random.choice([0, random.randrange(1 << 63)]) for _ in some)
                held.assign(some, numbers)
                model |= {
                    each: number for each, number in zip(some, numbers, strict=True) if number
                }
            case "pop":
                found = [each for each in dict.fromkeys(some) if each in model]
                numbers = [model.pop(each) for each in found]
                if step % 2:
                    held.drop_all(some)
                else:
                    assert tuple(map(list, held.pop_all(some))) == (found, numbers)
            case "copy":
                copies.append((held.copied(), dict(model)))
            case "most" if random.random() < 0.2:
                left = words(random.sample(list(model), len(model) * 9 // 10))
                assert held.pop_all(left)[1].tolist() == [model.pop(each) for each in left]
            case "clear" if random.random() < 0.1:
                held.clear()
                model.clear()
        assert_same(held, model, random, reach)
    for copy, then in copies:
        assert_same(copy, then, random, reach)
        copy.number_all(words([5]), 9)
        assert_same(copy, then | {5: 9}, random, reach)


@pytest.mark.parametrize("numbers", [words([]), words([1]), words([1, 2, 3])])
def test_there_are_as_many_numbers_as_sequences(kernel: Any, numbers: array[int]) -> None:
    held, ranked = kernel.NumberedSequences(), kernel.RankedSequences()
    ranked.add_all(words([4]), 1)
    for method in (held.assign, ranked.add_each, ranked.discard_all):
        with pytest.raises(ValueError, match=r"argument 2 is|not as many"):
            method(words([4, 5]), numbers)


def test_what_is_left_of_many_takes_little(kernel: Any) -> None:
    held = kernel.NumberedSequences()
    held.number_all(words(range(1, 200_001)), 1)
    full = sys.getsizeof(held)
    left = words(range(1, 200_001, 100))
    for start in range(1, 200_001, 1000):
        held.pop_all(words(each for each in range(start, start + 1000) if each % 100 != 1))
    assert held.columns()[0] == left
    assert sys.getsizeof(held) < full / (20 if is_compiled(kernel) else 3)
    for each in left:
        held.pop_all(words([each]))
    assert sys.getsizeof(held) < full / 20


@pytest.mark.parametrize("step", [1, -1, 1001])
def test_pages_are_full_in_whatever_order_sequences_come(kernel: Any, step: int) -> None:
    held = kernel.NumberedSequences()
    for at in range(0, 100_000 * step, step):
        held.number_all(words([at % 100_003 + 1]), 1)
    assert len(held) == 100_000
    assert sys.getsizeof(held) < 100_000 * (36 if is_compiled(kernel) else 60)


@pytest.mark.parametrize("seed", range(60))
def test_ranked_sequences_come_out_in_the_order_of_their_numbers(kernel: Any, seed: int) -> None:
    random = Random(seed)
    reach = random.choice([20, 300])
    numbers_max = random.choice([2, 30, 10_000])
    ranked = kernel.RankedSequences(random.choice([2, 4, 8, 64, 1024]))
    model: set[tuple[int, int]] = set()
    for _ in range(300):
        some, number = chosen(random, reach), random.randrange(1, numbers_max + 1)
        match random.choice(["add", "each", "discard", "discard", "pop", "most", "clear"]):
            case "add":
                ranked.add_all(some, number)
                model |= {(number, each) for each in some}
            case "each":
                pairs = [(random.randrange(1, numbers_max + 1), each) for each in some]
                ranked.add_each(*columns_of(pairs))
                model |= set(pairs)
            case "discard":
                pairs = [(random.randrange(1, numbers_max + 1), each) for each in some]
                pairs += random.sample(sorted(model), min(len(model), random.randrange(20)))
                if random.random() < 0.5:
                    pairs.sort()
                ranked.discard_all(*columns_of(pairs))
                model -= set(pairs)
            case "pop":
                count_max = random.choice([0, 1, 3, 100, 10_000])
                due = sorted(pair for pair in model if pair[0] <= number)[:count_max]
                popped = ranked.pop_through(number, count_max)
                assert popped.tolist() == [sequence for _, sequence in due]
                model -= set(due)
            case "most" if random.random() < 0.2:
                pairs = random.sample(sorted(model), len(model) * 9 // 10)
                ranked.discard_all(*columns_of(pairs))
                model -= set(pairs)
            case "clear" if random.random() < 0.1:
                ranked.clear()
                model.clear()
        assert len(ranked) == len(model)
        assert ranked.first_number() == min(model, default=(None,))[0]
    assert ranked.pop_through(1 << 65, 1 << 30).tolist() == [each for _, each in sorted(model)]
    assert ranked.first_number() is None


def test_ranks_of_many_take_little_once_they_are_gone(kernel: Any) -> None:
    ranked = kernel.RankedSequences()
    for number in range(1, 101):
        ranked.add_all(words(range(1, 1001)), number)
    full = sys.getsizeof(ranked)
    assert full < 100_000 * (20 if is_compiled(kernel) else 400)
    for number in range(1, 101):
        gone = words(each for each in range(1, 1001) if each % 100)
        ranked.discard_all(gone, words([number] * len(gone)))
    assert len(ranked) == 1000
    assert sys.getsizeof(ranked) < full / 10
    assert ranked.pop_through(100, 500).tolist() == [*range(100, 1001, 100)] * 50
    assert ranked.first_number() == 51


def columns_of(pairs: list[tuple[int, int]]) -> tuple[array[int], array[int]]:
    return words(each for _, each in pairs), words(number for number, _ in pairs)


def test_a_page_has_a_size(kernel: Any) -> None:
    for page_max in (1, 0, -2, 1025):
        with pytest.raises(ValueError, match="a page of"):
            kernel.NumberedSequences(page_max)
        with pytest.raises(ValueError, match="a page of"):
            kernel.RankedSequences(page_max)


def is_compiled(kernel: Any) -> bool:
    return str(kernel.__name__).endswith(".fast")


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("numbers", ()),
        ("without", ()),
        ("numbered", (1,)),
        ("follow", (1,)),
        ("following", (1,)),
        ("number_all", (1,)),
        ("number_on", (1,)),
        ("assign", (words([1, 2, 3]),)),
        ("drop_all", ()),
        ("pop_all", ()),
        ("add_all", (1,)),
        ("add_each", (words([1, 2, 3]),)),
        ("discard_all", (words([1, 2, 3]),)),
    ],
)
def test_nothing_is_read_beyond_the_end_of_narrower_words(
    compiled: Any, name: str, more: Any
) -> None:
    fast = compiled.load("jetstream_server.kernels.numbered")
    for kind in (fast.NumberedSequences, fast.RankedSequences):
        if hasattr(kind, name):
            with pytest.raises(TypeError, match="an array of 'B'"):
                getattr(kind(), name)(array("B", [1, 2, 3]), *more)
