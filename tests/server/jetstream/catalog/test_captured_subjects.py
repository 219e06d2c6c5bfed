"""What streams capture follows their configs."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.core.subject import overlaps
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
