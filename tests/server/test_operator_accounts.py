"""The accounts of an operator; played beside the genuine server by `test_resolver.py`."""

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import OperatorOptions, ServerOptions
from jetstream_server.operator_accounts import OperatorAccounts

NOW = 1_800_000_000 * SECOND


@pytest.fixture
def log():
    return []


@pytest.fixture
def make(credentials, log):
    def make(folder="", **tokens):
        preloaded = {credentials.account_key(name).public: jwt for name, jwt in tokens.items()}
        operator = OperatorOptions((credentials.OPERATOR.public,), preloaded, str(folder))
        return OperatorAccounts(operator, lambda level, text: log.append(text)), operator

    return make


def test_accounts_in_memory(make, credentials, log):
    accounts, operator = make(A=credentials.account("A", {}), B="nonsense")
    assert not accounts.is_changeable
    options = accounts.with_accounts(ServerOptions(operator=operator), NOW)
    assert [each.name for each in options.accounts] == [credentials.account_key("A").public]
    assert len(log) == 1 and "is left out: expected 3 chunks" in log[0]
    accounts.preload(OperatorOptions())
    assert accounts.tokens() == {}


def test_accounts_in_a_folder_are_there_after_a_restart(make, credentials, tmp_path):
    a, b = (credentials.account_key(name).public for name in "AB")
    accounts, _ = make(tmp_path, A=credentials.account("A", {}))
    followed = []
    accounts.follow = followed.append
    accounts.change({b: credentials.account("B", {})}, 5)
    assert followed == [5] and set(accounts.tokens()) == {a, b}
    again, _ = make(tmp_path)
    assert again.is_changeable and again.tokens() == accounts.tokens()
    again.change({a: None, credentials.account_key("C").public: None}, 6)
    assert set(make(tmp_path)[0].tokens()) == {b}


def test_the_newer_of_two_counts(make, credentials, tmp_path):
    old = credentials.account("A", {})
    new = credentials.account("A", {}, claims={"iat": credentials.ISSUED + 1})
    for token, expected in ((old, old), (new, new), (old, new)):
        (held,) = make(tmp_path, A=token)[0].tokens().values()
        assert held == expected
    (file,) = tmp_path.iterdir()
    file.write_text("damaged")
    assert list(make(tmp_path, A=old)[0].tokens().values()) == [old]


def test_what_can_not_be_kept_is_not_followed(make, credentials, tmp_path, log):
    accounts, _ = make(tmp_path)
    accounts.follow = lambda now: pytest.fail("followed")
    (tmp_path / "A.jwt.tmp").mkdir()
    with pytest.raises(ConfigError, match="could not be kept"):
        accounts.change({"A": "x"}, 5)
    assert accounts.tokens() == {} and "could not be kept" in log[0]
