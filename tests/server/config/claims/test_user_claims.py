from datetime import UTC, datetime

import pytest
from jetstream_server.config.claims.user_claims import (
    PermissionClaims,
    ResponseClaims,
    SubjectClaims,
    UserClaims,
    UserGrants,
)
from jetstream_server.config.permissions import Permissions, ResponsePermissions, SubjectPermissions


def at(hour: int, minute: int = 0) -> int:
    return int(datetime(2026, 3, 4, hour, minute, tzinfo=UTC).timestamp())


def grants(**fields) -> UserGrants:
    return UserGrants.model_validate(fields)


def test_networks():
    assert grants().is_from("anything")
    some = grants(src=["10.0.0.0/8", "::1/128"])
    assert some.is_from("10.1.2.3") and some.is_from("::1")
    assert not some.is_from("11.0.0.1") and not some.is_from("a name")


def test_networks_may_be_one_text():
    some = grants(src=" 10.0.0.0/8 , 127.0.0.0/8")
    assert some.is_from("127.0.0.1") and not some.is_from("11.0.0.1")
    assert grants(src="").is_from("11.0.0.1")


def test_times_of_the_day():
    assert grants().seconds_left(at(3)) is None
    day = grants(times=[{"start": "08:00:00", "end": "12:00:00"}])
    assert [day.seconds_left(at(hour)) for hour in (7, 8, 11, 12)] == [0, 4 * 3600, 3600, 0]
    night = grants(times=[{"start": "22:00:00", "end": "02:00:00"}])
    assert [night.seconds_left(at(hour)) for hour in (21, 22, 1, 2)] == [0, 4 * 3600, 3600, 0]
    there = grants(times=day.times, times_location="Asia/Tokyo")
    assert there.seconds_left(at(0)) == 3 * 3600 and there.seconds_left(at(9)) == 0


def test_times_of_the_machines_own_day(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    here = grants(times=[{"start": "08:00:00", "end": "12:00:00"}], times_location="Local")
    assert here.problem() == ""
    assert here.seconds_left(at(0)) == 3 * 3600 and here.seconds_left(at(9)) == 0


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, ""),
        ({"src": ["10.0.0.0/8"], "times": [{"start": "1:00:00", "end": "23:59:59"}]}, ""),
        ({"src": ["10.0.0.0/99"]}, "invalid cidr"),
        ({"src": ["10.0.0.1"]}, "invalid cidr"),
        ({"src": ["10.0.0.0/255.0.0.0"]}, "invalid cidr"),
        ({"src": ["::1", "10.0.0.0/8"]}, "invalid cidr"),
        ({"times": [{"start": "25:00:00", "end": "1"}]}, "HH:MM:SS"),
        ({"times_location": "Mars/North"}, "time zone"),
        ({"times_location": "America"}, "time zone"),
        ({"times_location": "local"}, "time zone"),
        ({"times_location": "x" * 300}, "time zone"),
        ({"times_location": "../../etc/passwd"}, "time zone"),
        ({"times_location": "a\0b"}, "time zone"),
    ],
)
def test_what_makes_no_sense(fields, text):
    assert text in grants(**fields).problem()
    assert bool(text) == bool(grants(**fields).problem())


def test_permissions_as_they_are_configured():
    assert PermissionClaims().as_options() is None
    some = PermissionClaims(pub=SubjectClaims(allow=("a",), deny=("b",)))
    assert some.as_options() == Permissions(SubjectPermissions(("a",), ("b",)))
    answers = PermissionClaims(resp=ResponseClaims(max=0, ttl=7)).as_options()
    assert answers == Permissions(SubjectPermissions(()), responses=ResponsePermissions(1, 7))


@pytest.mark.parametrize(
    ("direction", "subject", "is_bad"),
    [
        ("pub", "a.*.>", False),
        ("pub", "", True),
        ("pub", "a q", True),
        ("pub", "secret ", True),
        ("pub", "a..b", True),
        ("pub", ".a", True),
        ("sub", "a.> q.*", False),
        ("sub", "a q r", True),
        ("sub", "a  q", True),
        ("sub", "a ", True),
        ("sub", " a", True),
        ("sub", "a. q", True),
        ("sub", "a q..r", True),
    ],
)
@pytest.mark.parametrize("kind", ["allow", "deny"])
def test_subjects_that_can_match_nothing(direction, subject, is_bad, kind):
    some = PermissionClaims.model_validate({direction: {kind: ["b", subject]}})
    assert bool(some.bad_subject()) is is_bad


@pytest.mark.parametrize("subject", ["a\tb", "a.>.b"])
def test_what_is_denied_has_to_be_a_subject(subject):
    for direction in ("pub", "sub"):
        assert not PermissionClaims.model_validate({direction: {"allow": [subject]}}).bad_subject()
        denied = PermissionClaims.model_validate({direction: {"deny": [subject]}})
        assert denied.bad_subject().endswith("is not valid")


def test_everything_that_is_wrong_with_permissions():
    some = PermissionClaims.model_validate(
        {"pub": {"allow": ["a b"], "deny": ["c.."]}, "sub": {"allow": ["g h i"], "deny": ["j k"]}}
    )
    assert [*some.subject_problems()] == [
        'Permission Subject "g h i" contains too many spaces',
        'Permission Subject "a b" is not allowed to contain queue',
        'subject "c.." cannot start or end with a `.`',
        'subject "c.." cannot contain consecutive `.`',
    ]


@pytest.mark.parametrize(
    ("src", "is_from"),
    [
        (["::ffff:127.0.0.1/128"], True),
        (["::ffff:127.0.0.0/104"], True),
        (["::ffff:10.0.0.0/104"], False),
        (["::/0"], False),
        (["x", "127.0.0.0/8"], False),
        (["127.0.0.0/8", "x"], True),
        (["10.0.0.0/8", "x"], False),
        ("127.0.0.0/8,", True),
        (",", True),
        (" ", True),
    ],
)
def test_where_a_user_comes_from(src, is_from):
    assert grants(src=src).is_from("127.0.0.1") is is_from
    assert grants(src=src).is_from("::ffff:127.0.0.1") is is_from


def test_a_template_that_makes_no_sense_lets_nobody_in():
    """Nobody has looked at the scope of a signing key before a user comes."""
    day = {"start": "00:00:00", "end": "23:59:59"}
    for fields in (
        {"times": [day, {}]},
        {"times": [{"start": "x", "end": "y"}]},
        {"times": [day], "times_location": "Nowhere"},
    ):
        assert grants(**fields).seconds_left(at(3)) == 0


def test_times_may_have_parts_of_seconds():
    part = grants(times=[{"start": "08:00:00.5", "end": "12:00:00,999"}])
    assert part.problem() == "" and part.seconds_left(at(9)) == 3 * 3600


def test_limits_below_that_of_none_let_nothing_through():
    assert grants(subs=-2, payload=-(2**63)) == grants(subs=0, payload=0)
    assert grants(subs=-1).subs == -1


@pytest.mark.parametrize("name", ["src", "times", "allowed_connection_types"])
def test_an_empty_list_is_something_of_its_own(credentials, name):
    scoped = credentials.user("a", "KEYS", credentials.SCOPED_SIGNER, is_scoped=True, **{name: []})
    assert not UserClaims.read(scoped).nats.grants_nothing


def test_who_leaves_everything_to_a_scope(credentials):
    scoped = UserClaims.read(
        credentials.user("a", "KEYS", credentials.SCOPED_SIGNER, is_scoped=True)
    )
    assert scoped.nats.grants_nothing
    assert scoped.account == credentials.account_key("KEYS").public != scoped.issuer
    assert not UserClaims.read(credentials.user("a", "KEYS")).nats.grants_nothing
