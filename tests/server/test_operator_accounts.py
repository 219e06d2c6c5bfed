"""The accounts of an operator; played beside the genuine server by `test_resolver.py`."""

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import OperatorOptions, ServerOptions
from jetstream_server.core.steps import without_pauses
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

    def prepare(tokens, now):
        yield 1

        def follow():
            followed.append((set(tokens), set(accounts.tokens()), now))
            yield 1

        return follow

    accounts.prepare = prepare
    without_pauses(accounts.change({b: credentials.account("B", {})}, 5))
    assert followed == [({a, b}, {a, b}, 5)] and set(accounts.tokens()) == {a, b}
    again, _ = make(tmp_path)
    assert again.is_changeable and again.tokens() == accounts.tokens()
    without_pauses(again.change({a: None, credentials.account_key("C").public: None}, 6))
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

    def prepare(tokens, now):
        yield 1
        return lambda: pytest.fail("followed")

    accounts.prepare = prepare
    (tmp_path / "A.jwt.tmp").mkdir()
    with pytest.raises(ConfigError, match="could not be kept"):
        without_pauses(accounts.change({"A": "x"}, 5))
    assert accounts.tokens() == {} and "could not be kept" in log[0]


def test_of_several_that_can_not_all_be_kept_none_is(make, credentials, tmp_path, log):
    """What is on the disk is what is followed, also after a restart."""
    a, b, c = sorted(credentials.account_key(name).public for name in "ABC")
    accounts, _ = make(tmp_path)
    without_pauses(accounts.change({a: "1", b: "1"}, 5))
    for changed in ({a: "2", c: "2"}, {a: None, b: None, c: "2"}, {c: "3", a: None, b: "2"}):
        blocked = next(each for each in reversed(changed) if changed[each] is not None)
        (tmp_path / f"{blocked}.jwt.tmp").mkdir()
        with pytest.raises(ConfigError, match="could not be kept"):
            without_pauses(accounts.change(changed, 5))
        (tmp_path / f"{blocked}.jwt.tmp").rmdir()
        assert accounts.tokens() == {a: "1", b: "1"} == make(tmp_path)[0].tokens()


def test_what_was_found_in_the_folder_is_not_written_there_again(make, credentials, tmp_path):
    """Somebody may have put a newer one there meanwhile; and each takes its time."""
    a = credentials.account_key("A").public
    accounts, operator = make(tmp_path)
    (tmp_path / f"{a}.jwt").write_text("1")
    tokens = without_pauses(accounts.reloaded(operator))
    (tmp_path / f"{a}.jwt").write_text("2")
    without_pauses(accounts.hold(tokens))
    assert accounts.tokens() == {a: "1"}
    assert (tmp_path / f"{a}.jwt").read_text() == "2"
    assert without_pauses(accounts.reloaded(operator)) == {a: "2"}


def test_very_many_are_kept_a_step_at_a_time(make, credentials, tmp_path):
    accounts, _ = make(tmp_path)
    keys = [credentials.account_key(f"A{number}").public for number in range(20)]
    for token in ("1", None):
        steps = list(accounts.change(dict.fromkeys(keys, token), 5))
        assert sum(steps) >= 500 * len(keys) and max(steps) <= 500
        assert len(accounts.tokens()) == len(keys) * (token is not None)
