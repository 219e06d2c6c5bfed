import pytest
from jetstream_server.config.claims.claimed_subjects import (
    is_wild,
    permission_problems,
    quoted,
    renaming_problems,
    subject_problems,
    unreferred,
)


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("a.*.>", []),
        ("a*b.>c", []),
        ("", ["empty"]),
        (". a..b.", ["spaces", "start or end", "consecutive"]),
        ("a\tb", ["not valid"]),
        (">.a", ["not valid"]),
        ("a.>.b", ["not valid"]),
        ("a " + "x" * 65_536, ["too long"]),
    ],
)
def test_what_is_wrong_with_a_subject(subject, words):
    told = [*subject_problems(subject)]
    assert len(told) == len(words)
    assert all(word in each for word, each in zip(words, told, strict=True))


def test_a_queue_stands_behind_what_is_subscribed_to():
    assert not [*permission_problems("a.> q.*", is_subscribed=True)]
    assert [*permission_problems("a q", is_subscribed=False)] == [
        'Permission Subject "a q" is not allowed to contain queue'
    ]
    assert [*permission_problems("a ", is_subscribed=True)] == ["subject cannot be empty"]
    told = next(permission_problems("a q..", is_subscribed=True))
    assert told.startswith('subject "q.."')


@pytest.mark.parametrize(
    ("here", "subject", "words"),
    [
        ("x.$1", "q.*", []),
        ("x.$+1", "q.*", []),
        ("x.$0", "q.*", []),
        ("x.$1.$1", "q", ["Reference $1", "Reference $1"]),
        ("x.$01", "q", ["Reference $1"]),
        ("x.$99999999999", "q.*", ["Reference $99999999999", "not contain enough"]),
        ("x.$a", "q.*", ["not contain enough"]),
        ("x", "q.>", ["need to end or not end in >"]),
        ("x y", "q", ["spaces", "spaces"]),
        ("x." * 40_000, "q", ["too long"]),
    ],
)
def test_what_is_wrong_with_another_name(here, subject, words):
    told = [*renaming_problems(here, subject)]
    assert len(told) == len(words)
    assert all(word in each for word, each in zip(words, told, strict=True))


def test_references_are_wildcards():
    assert unreferred("x.$1.$-1.$a.$.y") == "x.*.*.$a.$.y"
    assert unreferred("") == ""


def test_what_stands_for_several_subjects():
    assert all(map(is_wild, ("*", ">", "a.*", "*.a", "a.>", "a. b.*")))
    assert not any(map(is_wild, ("", "a", "a*", "*a", "a>", "a.>.b")))


def test_text_between_quotes():
    assert quoted("aé") == '"aé"'
    assert quoted('"\\\t\x01\x7f\u200b\U000e0001') == '"\\"\\\\\\t\\x01\\x7f\\u200b\\U000e0001"'
    assert len(quoted("\t" * 100_000)) == 2 * 16_384 + 2
