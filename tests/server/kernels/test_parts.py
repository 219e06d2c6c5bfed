"""The parts kernel: dictionaries none of which becomes large, against one that may."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import pairwise
from random import Random
from typing import Any

import pytest

PART_MAX = 4096


@pytest.fixture(scope="module")
def kernel(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.parts")


@pytest.mark.parametrize("seed", range(30))
def test_names_have_the_values_they_were_given(kernel: Any, seed: int) -> None:
    random = Random(seed)
    names = kernel.PartedNames(random.choice([0, 3, 50, 10_000]))
    model: dict[bytes, int] = {}
    for step in range(400):
        name = b"s.%d" % random.randrange(150)
        match random.randrange(4):
            case 0 | 1:
                names[name] = model[name] = step
            case 2 if name in model:
                del names[name], model[name]
            case 3:
                some = [b"s.%d" % random.randrange(150) for _ in range(4)]
                taken = names.number_all(iter(some), step)
                for number, each in enumerate(some, step):
                    assert (number in taken) == (model.get(each, number) != number)
                    model.setdefault(each, number)
        assert len(names) == len(model)
        assert names.get(name) == model.get(name)
        assert (name in names) == (name in model)
        if name in model:
            assert names[name] == model[name]
    assert dict(names.items()) == model
    assert sorted(names) == sorted(model) and sorted(names.values()) == sorted(model.values())
    together: dict[bytes, int] = {}
    for part in names.parts:
        together |= part
    assert together == model


def test_a_name_that_is_not_there(kernel: Any) -> None:
    names = kernel.PartedNames()
    with pytest.raises(KeyError):
        names[b"a"]
    with pytest.raises(KeyError):
        del names[b"a"]
    assert (len(names), names.get(b"a"), list(names)) == (0, None, [])


def test_few_names_are_in_one_part_and_many_in_parts_like_each_other(kernel: Any) -> None:
    """What grows is copied, so none may be large while the others are small."""
    names = kernel.PartedNames()
    for number in range(10_000):
        names[b"s.%d.x" % number] = number
    assert [len(part) for part in names.parts] == [10_000]
    assert names.number_all([b"s.%d.x" % number for number in range(50_000)], 0) == []
    sizes = [len(part) for part in names.parts]
    assert sum(sizes) == len(names) == 50_000
    assert len(sizes) == 256 and max(sizes) < 2 * 50_000 / len(sizes)
    assert names.number_all([b"s.7.x", b"s.8.x", b"new", b"s.9.x"], 7) == [10]


@pytest.mark.parametrize("seed", range(60))
def test_sequences_have_the_values_they_were_given(kernel: Any, seed: int) -> None:
    random = Random(seed)
    part_max = random.choice([4, 8, 40])
    parted = kernel.PartedSequences(part_max)
    model: dict[int, str] = {}
    last = 0
    leaving = random.choice([0.2, 0.45, 0.6])
    for _ in range(600):
        live = list(model)
        if random.random() > leaving or not live:
            last += random.choice([1, 1, 1, 7, 1 << 40 if last < 1 << 60 else 1])
            parted[last] = model[last] = f"of {last}"
        else:
            some = random.choice(live)
            match random.randrange(6):
                case 0 | 1:  # mostly from the front, as in a queue
                    some = live[0]
                    del parted[some], model[some]
                case 2:
                    del parted[some], model[some]
                case 3:
                    assert parted.pop(some) == model.pop(some)
                    assert parted.pop(some) is None and parted.get(some) is None
                case 4:
                    doomed = random.sample(live, min(len(live), random.randint(1, 9)))
                    doomed += [random.randint(0, last)]
                    doomed = list(dict.fromkeys(doomed))
                    held = [each for each in doomed if each in model]
                    assert parted.pop_all(iter(doomed)) == [model.pop(each) for each in held]
                case 5:
                    more = list(range(last + 1, last + random.randint(1, 20)))
                    parted.extend(iter(more), "many")
                    model |= dict.fromkeys(more, "many")
                    last = more[-1] if more else last
        assert len(parted) == len(model) and bool(parted) == bool(model)
        sizes = [len(part) for part in parted.parts]
        assert 0 not in sizes[:-1] and max(sizes) <= part_max
        few = part_max // 4
        assert not any(a <= few and b <= few for a, b in pairwise(sizes[:-1]))
        asked = sorted({random.randint(0, last + 2) for _ in range(6)} | set(list(model)[:3]))
        held = [each for each in asked if each in model]
        assert parted.held(array("Q", asked)) == parted.held(asked) == held
        assert parted.values_of(asked) == [model[each] for each in held]
        for each in asked:
            assert parted.get(each) == model.get(each)
            assert (each in parted) == (each in model)
    assert list(parted) == list(model) == list(reversed(list(reversed(parted))))
    assert list(parted.values()) == list(model.values())
    for each, value in model.items():
        assert parted[each] == value


def test_a_sequence_that_is_not_there(kernel: Any) -> None:
    parted = kernel.PartedSequences(4)
    assert (len(parted), list(parted), list(reversed(parted))) == (0, [], [])
    parted.extend(range(3, 30), None)
    for part in ([], range(3, 12)):  # with the first parts, and without
        for sequence in part:
            del parted[sequence]
        for absent in (0, 1, 2, 30, 1 << 64, 10**5000, -1):
            with pytest.raises(KeyError):
                parted[absent]
            with pytest.raises(KeyError):
                del parted[absent]
            assert absent not in parted
            assert parted.get(absent) is None and parted.pop(absent) is None
        assert parted.held([0, 1, 2, 12, 29, 30]) == [12, 29]
    assert list(parted) == list(range(12, 30))


def test_no_part_has_more_than_so_many_and_few_that_are_left_are_put_together(
    kernel: Any,
) -> None:
    """Dictionaries keep the room that they had: a hundred with a message each are two megabytes."""
    parted = kernel.PartedSequences()
    parted.extend(range(1, 100 * PART_MAX + 1), 0)
    assert [len(part) for part in parted.parts] == [PART_MAX] * 100
    kept = range(1, 100 * PART_MAX + 1, PART_MAX // 8)
    gone = sorted(set(parted) - set(kept))
    assert len(parted.pop_all(gone)) == len(gone)
    assert list(parted) == list(kept)
    assert len(parted.parts) < 8
    assert sum(part.__sizeof__() for part in parted.parts) < 400_000


def test_what_stays_takes_no_more_room_than_it_needs(kernel: Any) -> None:
    parted = kernel.PartedSequences()
    parted.extend(range(3 * PART_MAX), 0)
    full = parted.parts[1].__sizeof__()
    for sequence in range(PART_MAX, 2 * PART_MAX - PART_MAX // 4):
        del parted[sequence]
    assert len(parted.parts[1]) == PART_MAX // 4
    assert parted.parts[1].__sizeof__() < full / 2


ORDERED_PART_MAX = 87_381


def parted(kernel: Any, entries: Iterable[tuple[Any, Any]], part_max: int) -> Any:
    made = kernel.PartedOrder(part_max=part_max)
    for key, value in entries:
        made.add(key, value)
    return made


def look_at_parts(made: Any, part_max: int) -> None:
    """Assert that no part is large, and that they are no more than there have to be."""
    *full, last = [len(part) for part in made.parts]
    few = part_max // 3
    assert all(0 < size <= part_max for size in full) and last <= part_max
    assert all(one > few or other > few for one, other in pairwise(full))


@pytest.mark.parametrize("seed", range(40))
def test_values_are_in_their_order(kernel: Any, seed: int) -> None:
    random = Random(seed)
    part_max = random.choice([1, 3, 6, 9, 30])
    begins = {b"%d" % key: key for key in range(random.choice([0, part_max]))}
    made, model = kernel.PartedOrder(dict(begins), part_max=part_max), dict(begins)
    comes = 0.7
    for step in range(600):
        if step % 100 == 0:
            comes = random.choice([0.2, 0.5, 0.8])
        key = b"%d" % random.randrange(150)
        if random.random() < comes:
            made[key] = model[key] = step
        elif random.random() < 0.5:
            assert made.discard(key) == (model.pop(key, None) is not None)
        elif key in model:
            del made[key], model[key]
        assert (len(made), made.get(key), key in made) == (len(model), model.get(key), key in model)
        assert key not in model or made[key] == model[key]
        look_at_parts(made, part_max)
    assert list(made.items()) == list(model.items())
    assert (list(made), list(made.values())) == (list(model), list(model.values()))
    for key in [*model]:
        assert made.discard(key)
        look_at_parts(made, part_max)
    assert len(made) == 0 and made.parts == [{}]


def test_a_key_that_is_not_there(kernel: Any) -> None:
    made = kernel.PartedOrder()
    with pytest.raises(KeyError):
        made[b"a"]
    with pytest.raises(KeyError):
        del made[b"a"]
    assert (len(made), made.get(b"a"), list(made), made.discard(b"a")) == (0, None, [], False)


def test_a_value_may_be_none(kernel: Any) -> None:
    keys = [object() for _ in range(5)]
    made = parted(kernel, [(key, None) for key in keys], 2)
    assert all(key in made and made.get(key) is None for key in keys) and list(made) == keys
    assert made.discard(keys[1]) and not made.discard(keys[1]) and len(made) == 4


def test_no_part_is_large(kernel: Any) -> None:
    made = kernel.PartedOrder()
    for key in range(2 * ORDERED_PART_MAX + 1):
        made.add(key, key)
    assert [len(part) for part in made.parts] == [ORDERED_PART_MAX, ORDERED_PART_MAX, 1]


def test_what_comes_and_goes_for_ever_is_in_no_more_parts(kernel: Any) -> None:
    for stays in (0, 10):  # the latest, or the same ten
        made = parted(kernel, ((key, key) for key in range(10)), 9)
        for key in range(10, 1000):
            made.add(key, key)
            assert made.discard(key if stays else key - 10)
            assert len(made) == 10 and len(made.parts) <= 4


def test_parts_with_one_left_each_are_put_together(kernel: Any) -> None:
    made = parted(kernel, ((key, key) for key in range(9000)), 9)
    for key in range(9000):
        if key % 9:
            made.discard(key)
    assert list(made) == list(range(0, 9000, 9))
    assert len(made.parts) <= 2 * 1000 // 3 + 2
