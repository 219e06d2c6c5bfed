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
        ({}, {"exports": [{"subject": "a..b", "type": "stream"}]}, "is not valid"),
        ({"disk_storage": 1, "tiered_limits": {"R1": {}}}, {}, "mutually exclusive"),
        ({"tiered_limits": {"": {}}}, {}, "blank"),
        ({}, {"signing_keys": ["x"]}, "not an account public key"),
        ({}, {"mappings": {"a": [{"subject": "b", "weight": 60}] * 2}}, "exceeds 100%"),
        ({}, {"default_permissions": {"pub": {"deny": ["a..b"]}}}, "invalid subject 'a..b'"),
    ],
)
def test_what_cannot_be(credentials, limits, fields, text):
    problem = read(credentials, limits, **fields).problem()
    assert text in problem and bool(text) == bool(problem)


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
