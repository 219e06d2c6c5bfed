"""What streams capture follows their configs."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.core.subject import overlaps
from jetstream_server.jetstream.catalog import captured_subjects
from jetstream_server.jetstream.catalog.captured_subjects import CapturedSubjects
from jetstream_server.jetstream.configs.stream_config import StreamConfig


def config(name: str, *subjects: str) -> StreamConfig:
    return StreamConfig(name=name, subjects=list(subjects))


def test_a_stream_does_not_stand_in_its_own_way():
    captured = CapturedSubjects()
    captured.follow("A", config("A", "a.>"))
    captured.follow("B", config("B", "b.*"))
    assert captured.overlap(config("C", "a.b"))
    assert not captured.overlap(config("A", "a.b"))
    assert captured.overlap(config("A", "b.>"))
    assert captured.overlap(config("C", "a.b"))


@pytest.mark.parametrize("seed", range(20))
def test_any_change_is_followed(seed):
    random, captured = Random(seed), CapturedSubjects()
    configs: dict[str, StreamConfig] = {}
    for _ in range(60):
        name = random.choice("ABCDE")
        subjects = random.sample(["a", "a.b", "a.*", "*.b", "c.>", "*.*.d"], random.randrange(3))
        wanted = config(name, *subjects)
        expected = any(
            overlaps(own, theirs)
            for other in configs.values()
            if other.name != name
            for own in wanted.subject_patterns
            for theirs in other.subject_patterns
        )
        assert captured.overlap(wanted) is expected
        if random.random() < 0.3:
            configs.pop(name, None)
            captured.follow(name, None)
        else:
            configs[name] = wanted
            captured.follow(name, wanted)


def test_many_are_noted_some_at_a_time_and_count_at_once():
    captured = CapturedSubjects()
    captured.follow("A", config("A", *(f"a.{n}" for n in range(5))))
    captured.follow("B", config("B", "b.>"))
    captured.follow("A", config("A", "a.0", "c"))
    assert [captured.go_on(4) for _ in range(4)] == [False, False, False, True]
    captured.follow("A", None)
    captured.follow("D", config("D", *(f"d.{n}" for n in range(5))))
    assert not captured.go_on(4)
    assert captured.overlap(config("C", "d.4"))
    assert not captured.overlap(config("C", "a.0", "c"))


@pytest.mark.parametrize("new", ["x.*", "a.1", "y", "b.1", "a.*"])
def test_a_stream_of_many_subjects_is_compared_as_any_other(monkeypatch, new):
    def stands_in_the_way() -> bool:
        captured = CapturedSubjects()
        captured.follow("A", config("A", "a.1", "a.2", "a.3"))
        captured.follow("B", config("B", "b.>", "y"))
        result = captured.overlap(config("A", "a.2", new))
        assert captured.overlap(config("C", "a.3"))
        return result

    expected = stands_in_the_way()
    monkeypatch.setattr(captured_subjects, "AT_ONCE", 1)
    assert stands_in_the_way() is expected
