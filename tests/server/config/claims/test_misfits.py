import pytest
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.misfits import kind_of
from jetstream_server.config.claims.token import ClaimsError


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"limits": 5},
            "number into Go struct field AccountClaims.nats.limits of type jwt.Operator",
        ),
        (
            {"limits": {"subs": 1.5}},
            "number 1.5 into Go struct field AccountClaims.nats.limits.subs",
        ),
        ({"limits": {"subs": 2**63}}, f"number {2**63} into Go struct field"),
        ({"imports": ["x"]}, "string into AccountClaims.nats.imports.0 of type jwt.Import"),
        ({"exports": {}}, "object into Go struct field AccountClaims.nats.exports of type jwt.Exp"),
        ({"tags": 5}, "number into Go struct field identifier.nats.tags of type jwt.TagList"),
        ({"tags": [5]}, "number into identifier.nats.tags.0 of type string"),
        ({"mappings": {"a": [5]}}, "into AccountClaims.nats.mappings.a.0 of type jwt.WeightedM"),
        ({"mappings": {"a": [{"weight": -1}]}}, "number -1 into Go struct field AccountClaims."),
        ({"trace": {"sampling": "x"}}, "AccountClaims.nats.trace.sampling of type int"),
        (
            {"description": []},
            "array into Go struct field AccountClaims.nats.description of type s",
        ),
        (
            {"info_url": True},
            "bool into Go struct field AccountClaims.nats.info_url of type string",
        ),
        (
            {"default_permissions": {"sub": 5}},
            "nats.default_permissions.sub of type jwt.Permission",
        ),
        ({"signing_keys": [{"kind": "user_scope", "role": 5}]}, "field .role of type string"),
        # Names that somebody has chosen.
        ({"revocations": {"signing_keys": []}}, "AccountClaims.nats.revocations"),
        ({"revocations": {"tags": []}}, "AccountClaims.nats.revocations"),
        ({"mappings": {"signing_keys": [{"weight": "x"}]}}, "AccountClaims.nats.mappings"),
    ],
)
def test_the_words_of_the_genuine_server(credentials, fields, text):
    key, operator = credentials.account_key("A").public, credentials.OPERATOR
    with pytest.raises(ClaimsError) as refusal:
        AccountClaims.read(credentials.token("account", operator, key, "A", fields))
    assert str(refusal.value).startswith("json: cannot unmarshal ") and text in str(refusal.value)


def test_kinds_of_json():
    given = (None, True, 5, 1.5, "", [], {})
    kinds = ["null", "bool", "number", "number", "string", "array", "object"]
    assert [*map(kind_of, given)] == kinds
