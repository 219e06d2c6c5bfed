import pytest
from jetstream_server.config.claims.account_claims import (
    AccountClaims,
    ActivationClaims,
    ExportClaims,
)
from jetstream_server.config.claims.token import ClaimsError
from jetstream_server.config.claims.user_claims import UserClaims

EXPORTS = [{"subject": "a.*", "type": "stream"}, {"subject": "b", "type": "service"}]


def read(credentials, limits=None, **fields) -> AccountClaims:
    return AccountClaims.read(credentials.account("A", limits or {}, **fields))


def test_signing_keys_with_and_without_a_scope(credentials):
    keys = AccountClaims.read(credentials.accounts()["KEYS"]).nats.signing_keys
    assert keys[credentials.PLAIN_SIGNER.public] is None
    scope = keys[credentials.SCOPED_SIGNER.public]
    assert scope is not None and scope.role == "reader" and scope.template.subs == 3


@pytest.mark.parametrize("keys", [5, [5], [{"kind": "user_scope"}]])
def test_signing_keys_that_are_none(credentials, keys):
    with pytest.raises(ClaimsError, match="signing_keys"):
        read(credentials, signing_keys=keys)


@pytest.mark.parametrize("weight", [-1, 256, 1.0, True, "5"])
def test_weights_are_eight_bits(credentials, weight):
    with pytest.raises(ClaimsError, match="weight"):
        read(credentials, mappings={"a": [{"subject": "b", "weight": weight}]})


def test_whether_anything_may_be_stored(credentials):
    def stores(**limits):
        return read(credentials, limits).nats.limits.has_jetstream

    assert not stores() and not stores(streams=5)
    assert stores(mem_storage=1) and stores(disk_storage=-1)
    assert stores(tiered_limits={"R1": {"disk_storage": 5}})
    assert not stores(tiered_limits={"R1": {"streams": 5}})


@pytest.mark.parametrize(
    ("limits", "fields", "text"),
    [
        ({}, {"exports": EXPORTS}, ""),
        ({"exports": 1}, {"exports": EXPORTS}, "more exports"),
        ({"exports": 2, "wildcards": False}, {"exports": EXPORTS}, "wildcard exports"),
        ({"imports": 0}, {"imports": [{"subject": "a", "type": "stream"}]}, "more imports"),
        ({}, {"imports": [{"subject": "a", "type": "stream", "account": "x"}]}, "of no account"),
        ({}, {"exports": [{"subject": "a..b", "type": "stream"}]}, "consecutive"),
        ({"disk_storage": 1, "tiered_limits": {"R1": {}}}, {}, "mutually exclusive"),
        ({"tiered_limits": {"": {}}}, {}, "blank"),
        ({}, {"signing_keys": ["x"]}, "not a valid account signing key"),
        ({}, {"mappings": {"a": [{"subject": "b", "weight": 60}] * 2}}, "exceeds 100%"),
        ({}, {"default_permissions": {"pub": {"deny": ["a..b"]}}}, "invalid subject 'a..b'"),
    ],
)
def test_what_cannot_be(credentials, limits, fields, text):
    problem = read(credentials, limits, **fields).problem()
    assert text in problem and bool(text) == bool(problem)


SERVICE = {"name": "q", "subject": "q.*", "type": "service"}
STREAM = SERVICE | {"type": "stream"}


@pytest.mark.parametrize(
    ("export", "text"),
    [
        (SERVICE | {"response_type": "x"}, 'invalid response type for service: "x"'),
        (SERVICE | {"response_type": "stream"}, 'invalid response type for service: "stream"'),
        (STREAM | {"response_type": "Stream"}, 'invalid response type for stream: "Stream"'),
        (SERVICE | {"response_threshold": -1}, "negative response threshold is invalid"),
        (STREAM | {"response_threshold": 5}, "response threshold only valid for services"),
        (STREAM | {"allow_trace": True}, "AllowTrace only valid for service export"),
        (STREAM | {"service_latency": {}}, "latency tracking only permitted for services"),
        (SERVICE | {"service_latency": {"sampling": 101}}, "needs to be between 1-100"),
        (SERVICE | {"service_latency": {"sampling": -1}}, "needs to be between 1-100"),
        (SERVICE | {"service_latency": {"results": "to.*"}}, "can not contain wildcards"),
        (SERVICE | {"account_token_position": 3}, "3 exceeds length of subject 'q.*'"),
        (SERVICE | {"account_token_position": 1}, "1 matches 'q' but must match a * in: q.*"),
        (STREAM | {"subject": "q", "account_token_position": 1}, "with wildcard subjects: q"),
        (SERVICE | {"response_type": "Singleton"}, ""),
        (SERVICE | {"response_type": "Chunked", "response_threshold": 5}, ""),
        (SERVICE | {"service_latency": {"sampling": "Headers", "results": "told"}}, ""),
        (STREAM | {"account_token_position": 2, "token_req": True}, ""),
    ],
)
def test_exports_that_cannot_be(credentials, export, text):
    """Texts are those of the genuine server 2.15.1."""
    problem = read(credentials, {"exports": -1}, exports=[export]).problem()
    assert text in problem if text else not problem


@pytest.mark.parametrize(
    "fields", [{"account_token_position": -1}, {"service_latency": {"sampling": "x"}}]
)
def test_values_that_exports_do_not_have(credentials, fields):
    with pytest.raises(ClaimsError, match="exports"):
        read(credentials, exports=[SERVICE | fields])


def test_an_unknown_scope_and_a_template_that_makes_no_sense(credentials):
    key = credentials.PLAIN_SIGNER.public
    for scope, text in (
        ({"kind": "x", "key": key}, "unknown"),
        ({"kind": "user_scope", "key": key, "template": {"src": ["x"]}}, "cidr"),
    ):
        assert text in read(credentials, signing_keys=[scope]).problem()


def test_revocations_are_of_one_user_or_of_all(credentials):
    alice = UserClaims.read(credentials.user("alice", "A"))
    issued = credentials.ISSUED
    for revocations, is_revoked in (
        ({}, False),
        ({alice.subject: issued}, True),
        ({alice.subject: issued - 1}, False),
        ({"*": issued}, True),
        ({"UX": issued}, False),
    ):
        assert read(credentials, revocations=revocations).has_revoked(alice) is is_revoked


def test_whom_an_activation_lets_in(credentials):
    exporter = read(credentials)
    shop = credentials.account_key("SHOP").public
    export = ExportClaims(subject="a.>", type="stream", token_req=True)
    given = ActivationClaims.read(credentials.activation("A", "SHOP", "a.>", "stream"))
    assert given.lets(shop, exporter, export)
    assert not given.lets(credentials.account_key("B").public, exporter, export)
    assert not given.lets(shop, exporter, export.model_copy(update={"type": "service"}))
    revoked = export.model_copy(update={"revocations": {shop: credentials.ISSUED}})
    assert not given.lets(shop, exporter, revoked)
    other = ActivationClaims.read(credentials.activation("B", "SHOP", "a.>", "stream"))
    assert not other.lets(shop, exporter, export)


def test_version_1_knows_nothing_of_jetstream_nor_of_default_permissions(credentials):
    key = credentials.account_key("A")
    nats = {
        "limits": {"subs": 3, "mem_storage": -1},
        "default_permissions": {"pub": {"deny": [">"]}},
        "signing_keys": [credentials.PLAIN_SIGNER.public],
    }
    token = credentials.token_of_version_1("account", credentials.OPERATOR, key.public, "A", nats)
    claims = AccountClaims.read(token)
    assert (claims.nats.limits.subs, claims.nats.limits.conn) == (3, 0)
    assert not claims.nats.limits.has_jetstream
    assert claims.nats.default_permissions.as_options() is None
    assert credentials.PLAIN_SIGNER.public in claims.nats.signing_keys


def test_an_activation_of_version_1(credentials):
    of, to = credentials.account_key("A"), credentials.account_key("B")
    nats = {"subject": "a", "type": "stream"}
    token = credentials.token_of_version_1("activation", of, to.public, "a", nats)
    exporter = read(credentials)
    assert ActivationClaims.read(token).lets(
        to.public, exporter, ExportClaims(subject="a", type="stream")
    )


def test_a_revocation_before_1970_revokes_no_later_user(credentials):
    user = UserClaims.read(credentials.user("u", "A", claims={"iat": -5}))
    assert not read(credentials).has_revoked(user)
    assert read(credentials, revocations={"*": -5}).has_revoked(user)
