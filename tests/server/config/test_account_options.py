import pytest
from jetstream_server.config import account_options
from jetstream_server.config.account_options import (
    AccountsClaimed,
    claimed_accounts,
    forget,
    valid_in_steps,
)
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.token import ClaimsError
from jetstream_server.config.options import (
    AccountJetStreamOptions,
    AccountOptions,
    MappingDestination,
    SubjectMapping,
)

from tests.traced_lines import lines_of

NOW = 1_800_000_000


def valid_account(key, token, trusted):
    """Return what an account claims, and forget it if that is refused, as who asks does."""
    looking = valid_in_steps(key, token, trusted)
    try:
        while True:
            next(looking)
    except StopIteration as end:
        return end.value
    except ClaimsError:
        forget(token)
        raise


@pytest.fixture
def trusted(credentials):
    return (credentials.OPERATOR.public, credentials.OPERATOR_SIGNING.public)


@pytest.fixture
def made(credentials, trusted):
    tokens = {credentials.account_key(n).public: jwt for n, jwt in credentials.accounts().items()}
    accounts, notes = claimed_accounts(tokens, trusted, NOW)
    named = {each.claims.name: each for each in accounts if each.claims is not None}
    return named, notes


def test_limits(made):
    flat: AccountOptions = made[0]["FLAT"]
    assert flat.jetstream == AccountJetStreamOptions(2000, 3000, 2, 2, True, 1000, 1500, 20)
    assert made[0]["PLAIN"].jetstream is None
    few = made[0]["FEW"]
    assert (few.max_connections, few.max_subscriptions, few.max_payload) == (2, 3, 100)


def test_tiers(made):
    jetstream = made[0]["TIERS"].jetstream
    assert jetstream is not None and list(jetstream.tiers) == ["R1", "R3"]
    assert jetstream.tiers["R3"] == AccountJetStreamOptions(0, 5000, 1, -1)


def test_exports_imports_and_mappings(made, credentials):
    store, shop = made[0]["STORE"], made[0]["SHOP"]
    paid = next(each for each in store.exports if each.subject == "paid.>")
    assert paid.is_private and {name for name, _ in paid.activated} == {shop.name}
    assert {each.subject: each.response for each in store.exports}["$JS.API.>"] == "stream"
    assert store.mappings == (SubjectMapping("old", (MappingDestination("new"),)),)
    taken = {each.subject: each.local_subject for each in shop.imports}
    assert taken["news.>"] == "far.news.>" and taken["orders.*"] == "to.$1"
    assert len(shop.imports) == 5


def test_one_account_does_not_stop_the_others(made, credentials):
    named, notes = made
    assert "LATE" not in named and len(named) == len(credentials.accounts()) - 1
    assert notes == [
        f"account {credentials.account_key('LATE').public} is left out:"
        " the JWT is not valid at this time"
    ]


def test_an_import_without_a_right_is_left_out(credentials, trusted):
    entry = {"account": credentials.account_key("STORE").public, "type": "stream"}
    expired = credentials.activation("STORE", "A", "paid.>", "stream", exp=credentials.ISSUED)
    tokens = {
        "STORE": credentials.accounts()["STORE"],
        "A": credentials.account(
            "A",
            {},
            imports=[
                entry | {"subject": "paid.>"},
                entry | {"subject": "paid.x", "token": expired},
                entry | {"subject": "news.x"},
                entry | {"subject": "x", "account": credentials.account_key("GONE").public},
            ],
        ),
    }
    tokens = {credentials.account_key(name).public: jwt for name, jwt in tokens.items()}
    accounts, notes = claimed_accounts(tokens, trusted, NOW)
    assert [each.subject for each in accounts[1].imports] == ["news.x"]
    assert len(notes) == 3 and all("stream import" in each for each in notes)


def test_what_to_is_without_a_local_subject(credentials, trusted):
    entry = {"account": credentials.account_key("STORE").public, "type": "service"}
    tokens = {
        "STORE": credentials.accounts()["STORE"],
        "A": credentials.account("A", {}, imports=[entry | {"subject": "mine", "to": "orders.x"}]),
    }
    tokens = {credentials.account_key(name).public: jwt for name, jwt in tokens.items()}
    (taken,) = claimed_accounts(tokens, trusted, NOW)[0][1].imports
    assert (taken.subject, taken.local_subject) == ("orders.x", "mine")


def test_accounts_that_cannot_be_relied_on(credentials, trusted):
    key, token = credentials.account_key("A").public, credentials.account("A", {})
    assert valid_account(key, token, trusted).name == "A"
    foreign = credentials.account("A", {}, credentials.Key("operator", "other"))
    wrong = credentials.account("A", {"tiered_limits": {"": {}}})
    for given, jwt, text in (
        (credentials.account_key("B").public, token, "is that of"),
        (key, foreign, "trusted operator"),
        (key, wrong, "blank"),
        (key, "x", "3 chunks"),
    ):
        with pytest.raises(ClaimsError, match=text):
            valid_account(given, jwt, trusted)


def test_what_a_token_claims_is_looked_at_once(credentials, trusted, monkeypatch):
    """All accounts are read whenever one of them changes, and one may have 20,000 mappings."""
    looked_at = []
    look = AccountClaims.look
    monkeypatch.setattr(
        AccountClaims, "look", lambda self: looked_at.append(self.name) or look(self)
    )
    fields = {"mappings": {"a.once": [{"subject": "b"}]}}
    tokens = {
        credentials.account_key("ONCE").public: credentials.account(
            "ONCE", {"exports": -1}, **fields
        )
    }
    (first,), notes = claimed_accounts(tokens, trusted, NOW)
    tokens[credentials.account_key("OTHER").public] = credentials.account("OTHER", {})
    (again, _), _ = claimed_accounts(tokens, trusted, NOW)
    assert notes == [] and looked_at.count(first.claims.name) == 1
    assert again.mappings is first.mappings and len(again.mappings) == 1


def test_however_many_jwts_are_held_each_is_read_once(credentials, trusted, monkeypatch):
    """With more than a cache held, all signatures were looked at whenever one account changed."""
    token, read, reads = credentials.account("A", {}), AccountClaims.read_in_steps, []

    def counted(text):
        reads.append(text)
        return read(text)

    monkeypatch.setattr(AccountClaims, "read_in_steps", counted)
    readings = account_options._ReadTokens(AccountClaims.read)
    monkeypatch.setattr(account_options, "_CLAIMS", readings)
    key = credentials.account_key("A").public
    tokens = {key: token} | {f"{key}{n}": token + n * " " for n in range(1, 4100)}
    for expected in (4100, 4100):
        accounts, notes = claimed_accounts(tokens, trusted, NOW)
        assert len(accounts) == 1 and len(notes) == 4099
        assert len(reads) == expected
    # What is held no more is forgotten, so what was held once takes no memory.
    for held in ({}, {}, tokens):
        claimed_accounts(held, trusted, NOW)
    assert len(reads) == 8200


def test_what_is_refused_is_not_remembered(credentials, trusted, monkeypatch):
    readings = account_options._ReadTokens(AccountClaims.read)
    monkeypatch.setattr(account_options, "_CLAIMS", readings)
    key, token = credentials.account_key("A").public, credentials.account("A", {})
    with pytest.raises(ClaimsError, match="not signed by a trusted operator"):
        valid_account(key, token, ())
    assert not readings._asked
    valid_account(key, token, trusted)
    assert list(readings._asked) == [token], "it is held from now on"


def test_accounts_that_stay_are_not_made_again(credentials, trusted):
    """To make 5,000 of them took 35 ms, whenever one of them changed."""
    names = [f"STAYS{n}" for n in range(100)]
    tokens = {credentials.account_key(n).public: credentials.account(n, {}) for n in names}
    before, _ = claimed_accounts(tokens, trusted, NOW)
    tokens[credentials.account_key("STAYS7").public] = credentials.account("STAYS7", {"conn": 3})
    again = []
    assert lines_of(lambda: again.extend(claimed_accounts(tokens, trusted, NOW))) < 100 * 60
    made = {each.name: each for each in again[0]}
    changed = [each.name for each in before if made[each.name] is not each]
    assert changed == [credentials.account_key("STAYS7").public]
    assert made[changed[0]].max_connections == 3


def test_accounts_are_made_in_steps(credentials, trusted):
    """To read 2,400 imports, and to look at them, took 0.7 s in one piece."""
    key = credentials.account_key("E").public
    subjects = [f"steps.{n}" for n in range(300)]
    exports = [{"type": "stream", "subject": each} for each in subjects]
    imports = [each | {"account": key} for each in exports]
    tokens = {
        key: credentials.account("E", {}, exports=exports),
        credentials.account_key("I").public: credentials.account("I", {}, imports=imports),
    }
    first, again = (AccountsClaimed(tokens, trusted, NOW) for _ in range(2))
    taken = list(first.make())
    assert len(taken) > 1500 and max(taken) < 2000
    assert sum(again.make()) < sum(taken), "what JWTs say is known"
    assert len(first.accounts[1].imports) == 300 and not first.notes
    assert all(x is y for x, y in zip(first.accounts, again.accounts, strict=True))


def test_activations_count_for_each_export_of_their_kind_unless_it_revokes_them(
    credentials, trusted
):
    key, to = credentials.account_key("E").public, credentials.account_key("I").public
    private = {"type": "stream", "token_req": True}
    revoked = {to: credentials.ISSUED}
    exports = [
        private | {"subject": "p.a"},
        private | {"subject": "p.b"},
        private | {"subject": "p.c", "revocations": revoked},
        private | {"subject": "p.d", "type": "service"},
        {"type": "stream", "subject": "open", "revocations": revoked},
    ]
    token = credentials.activation("E", "I", "p.>", "stream")
    entry = {"type": "stream", "account": key, "token": token}
    imports = [entry | {"subject": each} for each in ("p.a", "p.b", "p.c")]
    imports += [{"type": "stream", "account": key, "subject": "open"}]
    tokens = {
        key: credentials.account("E", {}, exports=exports),
        to: credentials.account("I", {}, imports=imports),
    }
    (exporter, importer), _ = claimed_accounts(tokens, trusted, NOW)
    activated = [sorted(each.activated) for each in exporter.exports]
    assert activated == [[(to, "p.a"), (to, "p.b"), (to, "p.c")]] * 2 + [[]] * 3
    assert [each.subject for each in importer.imports] == ["p.a", "p.b", "open"]


def test_an_activation_lets_in_what_shows_it_and_nothing_else(credentials, trusted):
    """As in the genuine server (`test_resolver.py`): any import let the account take all."""
    key, to = credentials.account_key("E").public, credentials.account_key("I").public
    exports = [
        {"type": kind, "subject": subject, "token_req": True}
        for kind in ("stream", "service")
        for subject in ("p.a", "p.b")
    ]
    tokens = {key: credentials.account("E", {}, exports=exports)}
    for kind, more in (("stream", {}), ("service", {}), ("service", {"to": "p.a"})):
        entry = {"type": kind, "account": key}
        shown = entry | {"token": credentials.activation("E", "I", "p.a", kind)}
        subject = "here" if more else "p.a"
        imports = [entry | {"subject": "p.b"}, shown | {"subject": subject} | more]
        tokens[to] = credentials.account("I", {}, imports=imports)
        (_, importer), notes = claimed_accounts(tokens, trusted, NOW)
        assert [each.subject for each in importer.imports] == ["p.a"]
        assert len(notes) == 1 and "not authorized" in notes[0]


def test_who_exports_in_private_is_what_it_was_unless_somebody_else_may_import(
    credentials, trusted
):
    """Or what follows from it would be found out again with every change of somebody."""
    key, to = credentials.account_key("E").public, credentials.account_key("I").public
    exports = [{"type": "stream", "subject": f"p.{n}", "token_req": True} for n in range(3)]
    tokens = {key: credentials.account("E", {}, exports=exports)}
    made = []
    for count in (0, 1, 1, 2, 2):
        imports = [
            {"type": "stream", "account": key, "subject": f"p.{n}",
             "token": credentials.activation("E", "I", f"p.{n}", "stream")}
            for n in range(count)
        ]  # fmt: skip
        tokens[to] = credentials.account("I", {}, imports=imports)
        (exporter, importer), _ = claimed_accounts(tokens, trusted, NOW)
        assert len(importer.imports) == count
        made.append(exporter)
    assert made[2] is made[1] and made[4] is made[3]
    assert made[1] is not made[0] and made[3] is not made[2]
    alone = claimed_accounts({key: tokens[key]}, trusted, NOW)[0][0]
    assert not any(each.activated for each in alone.exports)


def test_what_is_exported_is_not_looked_at_again(credentials, trusted):
    def lines(count):
        exports = [{"type": "stream", "subject": f"again.{n}"} for n in range(count)]
        key = credentials.account_key("MANY").public
        tokens = {key: credentials.account("MANY", {}, exports=exports)}
        claimed_accounts(tokens, trusted, NOW)
        claimed = AccountsClaimed(tokens, trusted, NOW)
        steps = claimed.make()
        return lines_of(lambda: [next(steps) for _ in range(3)])

    assert lines(400) <= lines(4) + 5
