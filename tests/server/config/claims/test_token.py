import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.operator_claims import OperatorClaims
from jetstream_server.config.claims.token import ClaimsError, undecorated
from jetstream_server.config.claims.user_claims import UserClaims


def part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_a_jwt_is_read_when_its_issuer_has_signed_it(credentials):
    token = credentials.user("alice", "PLAIN", tags=["x"], claims={"exp": 5, "nbf": 3})
    claims = UserClaims.read(f" {token}\n")
    assert claims.name == "alice"
    assert claims.subject == credentials.Key("user", "alice").public
    assert claims.issuer == claims.account == credentials.account_key("PLAIN").public
    assert [claims.is_current(second) for second in (2, 3, 5, 6)] == [False, True, True, False]


def test_nulls_and_unknown_fields_say_nothing(credentials):
    token = credentials.user("alice", "PLAIN", src=None, pub=None, something={"new": 1})
    assert UserClaims.read(token).nats.src == ()


def test_another_kind_of_jwt(credentials):
    with pytest.raises(ClaimsError, match="not operator claim"):
        OperatorClaims.read(credentials.user("alice", "PLAIN"))


@pytest.mark.parametrize(
    "text", ["", "a.b", "a.b.c.d", "....", "Ä.Ä.Ä", "e30.e30.e30", "W10.W10.x"]
)
def test_what_is_no_jwt(text):
    with pytest.raises(ClaimsError):
        UserClaims.read(text)


def test_every_change_is_noticed(credentials):
    token = credentials.user("alice", "PLAIN")
    for at in range(0, len(token), 7):
        other = "A" if token[at] != "A" else "B"
        with pytest.raises(ClaimsError):
            UserClaims.read(token[:at] + other + token[at + 1 :])


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"typ": "JWT", "alg": "none"}, 'algorithm "none"'),
        ({"typ": "JWT", "alg": "ed25519x"}, 'algorithm "ed25519x"'),
        ({"typ": "x", "alg": "ed25519-nkey"}, 'type "x"'),
        ([], "no JSON object"),
    ],
)
def test_other_headers_are_refused(credentials, header, text):
    _, body, signature = credentials.user("alice", "PLAIN").split(".")
    with pytest.raises(ClaimsError, match=text):
        UserClaims.read(f"{part(header)}.{body}.{signature}")


def test_who_may_sign_what(credentials):
    user, operator = credentials.Key("user", "u"), credentials.OPERATOR
    for issuer, subject, text in (
        (user, user.public, "may sign"),
        (operator, user.public, "may sign"),
        (credentials.account_key("A"), operator.public, "the subject"),
    ):
        with pytest.raises(ClaimsError, match=text):
            UserClaims.read(credentials.token("user", issuer, subject, "x", {}))


def test_values_of_a_wrong_type_are_named(credentials):
    token = credentials.user("alice", "PLAIN", subs="many")
    with pytest.raises(ClaimsError, match=r"nats\.subs"):
        UserClaims.read(token)


@pytest.mark.parametrize("number", ["1e3", "1.0", "true", '"5"', "9223372036854775808", "9" * 5000])
@pytest.mark.parametrize("name", ["exp", "nats"])
def test_numbers_are_integers_of_64_bits(credentials, name, number):
    given = {"exp": "MARK"} if name == "exp" else {}
    token = credentials.user("alice", "PLAIN", subs="MARK" if name == "nats" else 1, claims=given)
    header, body, _ = token.split(".")
    text = urlsafe_b64decode(body + "==").decode().replace('"MARK"', number)
    signed = f"{header}.{urlsafe_b64encode(text.encode()).decode().rstrip('=')}"
    with pytest.raises(ClaimsError, match=r"\.exp |nats\.subs |no JSON"):
        UserClaims.read(f"{signed}.{credentials.account_key('PLAIN').sign(signed)}")


@pytest.mark.parametrize("version", [0, 3, -1, "2", 1.0, True, None])
def test_other_versions_are_refused(credentials, version):
    with pytest.raises(ClaimsError, match="version"):
        UserClaims.read(credentials.user("alice", "PLAIN", version=version))


def test_version_1_is_signed_without_its_header(credentials):
    key, of = credentials.Key("user", "alice").public, credentials.account_key("PLAIN")
    token = credentials.token_of_version_1("user", of, key, "alice", {"payload": 7}, tags=["x"])
    claims = UserClaims.read(token)
    assert (claims.nats.subs, claims.nats.payload, claims.nats.tags) == (-1, 7, ("x",))
    header, body, _ = token.split(".")
    both = of.sign(f"{header}.{body}")
    with pytest.raises(ClaimsError, match="signature"):
        UserClaims.read(f"{header}.{body}.{both}")
    header, body, _ = credentials.user("alice", "PLAIN").split(".")
    with pytest.raises(ClaimsError, match="signature"):
        UserClaims.read(f"{header}.{body}.{of.sign(body)}")


@pytest.mark.parametrize(("number", "is_current"), [(0, True), (-1, False), (-(2**63), False)])
def test_what_ended_before_1970_is_over(credentials, number, is_current):
    claims = UserClaims.read(credentials.user("alice", "PLAIN", claims={"exp": number}))
    assert claims.is_current(10) is is_current


def test_a_file_may_say_what_it_holds():
    text = "-----BEGIN NATS OPERATOR JWT-----\neyJ.x.y\n------END NATS OPERATOR JWT------\n"
    assert undecorated(text) == undecorated(" eyJ.x.y \n") == "eyJ.x.y"


NESTED = 1000


@pytest.mark.parametrize("name", ["typ", "alg", "version"])
def test_what_is_nested_deeply_is_no_type_algorithm_or_version(credentials, name):
    """Before anybody has signed in such a JWT cost an incident: it cannot be quoted."""
    nest = "[" * NESTED + "]" * NESTED
    version = "MARK" if name == "version" else 2
    _, body, _ = credentials.user("alice", "PLAIN", version=version).split(".")
    head = {"typ": "JWT", "alg": "ed25519-nkey"} | {name: "MARK"}
    parts = (json.dumps(head), urlsafe_b64decode(body + "==").decode())
    texts = [text.replace('"MARK"', nest).encode() for text in parts]
    signed = ".".join(urlsafe_b64encode(text).decode().rstrip("=") for text in texts)
    with pytest.raises(ClaimsError):
        UserClaims.read(f"{signed}.{credentials.account_key('PLAIN').sign(signed)}")


@pytest.mark.parametrize("version", [1, 2])
def test_a_jwt_is_not_nested_deeply(credentials, version):
    """What it claims is shown again, inside an answer."""
    nest: list = []
    for _ in range(300):
        nest = [nest]
    key, of = credentials.Key("user", "alice").public, credentials.account_key("PLAIN")
    make = credentials.token_of_version_1 if version == 1 else credentials.token
    with pytest.raises(ClaimsError, match="nested"):
        UserClaims.read(make("user", of, key, "alice", {}, unheard_of=nest))


def test_names_count_in_whatever_case(credentials):
    nats = {"Subs": 3, "BEARER_TOKEN": True, "Pub": {"Deny": ["a"]}}
    of, key = credentials.account_key("PLAIN"), credentials.Key("user", "alice").public
    claims = UserClaims.read(credentials.token("user", of, key, "alice", nats, Exp=5)).nats
    assert (claims.subs, claims.bearer_token, claims.pub.deny) == (3, True, ("a",))
    # The name of a field is not that of a claim.
    others = {"Subject": "x", "Issuer": "y"}
    other = credentials.user("alice", "PLAIN", locale="x", claims=others)
    assert UserClaims.read(other).nats.locale == ""


def test_nulls_in_a_list_are_nothing(credentials):
    nats = {"tags": [None, "x"], "times": [None], "pub": {"allow": ["a", None]}}
    claims = UserClaims.read(credentials.user("alice", "PLAIN", **nats)).nats
    assert (claims.tags, claims.pub.allow, claims.times[0].start) == (("", "x"), ("a", ""), "")


@pytest.mark.parametrize("value", [1, "true", "x", 0])
def test_only_booleans_are_flags(credentials, value):
    with pytest.raises(ClaimsError, match=r"bearer_token of type bool"):
        UserClaims.read(credentials.user("alice", "PLAIN", bearer_token=value))


@pytest.mark.parametrize("name", ["jti", "aud"])
def test_claims_that_nobody_reads_are_texts_too(credentials, name):
    with pytest.raises(ClaimsError, match=f"UserClaims.{name} of type string"):
        UserClaims.read(credentials.user("alice", "PLAIN", claims={name: 5}))


@pytest.mark.parametrize(
    "value", [[{}] * 2600, [None] * 2600, [[]] * 2600, [0] * 26_000, "x" * 1_200_000]
)
def test_a_jwt_claims_only_so_much(credentials, value):
    """It would take a second to look at a megabyte of it."""
    with pytest.raises(ClaimsError, match="in one turn"):
        UserClaims.read(credentials.user("alice", "PLAIN", unheard_of=value))


def test_what_does_not_fit_is_told_once(credentials):
    """One of a hundred thousand misfits is enough: each would take a hundredth of a millisecond."""
    for fields in (
        {"tags": [5] * 2000},
        {"times": [5] * 2000},
        {"pub": {"allow": [5] * 2000}},
    ):
        token = credentials.user("alice", "PLAIN", **fields)
        with pytest.raises(ClaimsError, match=r"\.0 of type"):
            UserClaims.read(token)


def test_a_long_one_is_read_in_steps(credentials):
    exports = [{"type": "stream", "subject": f"a.{n}"} for n in range(500)]
    token = credentials.account("A", {}, exports=exports)
    reading = AccountClaims.read_in_steps(token)
    taken = [next(reading), next(reading)]
    assert min(taken) > 100, "it is understood, and its signature checked, in other turns"
    with pytest.raises(StopIteration) as end:
        next(reading)
    assert end.value.value == AccountClaims.read(token)
    forged = token[:-8] + "AAAAAAAA"
    with pytest.raises(ClaimsError, match="signature"):
        list(AccountClaims.read_in_steps(forged))
