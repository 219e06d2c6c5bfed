"""The operator's options; texts as the genuine server has them."""

import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.load import load


@pytest.fixture
def read(tmp_path, credentials):
    operator = credentials.token(
        "operator", credentials.OPERATOR, credentials.OPERATOR.public, "o", {}
    )

    def read(text: str):
        path = tmp_path / "o.conf"
        path.write_text(text.replace("OPERATOR", operator))
        return load(str(path))

    return read


def operator_jwt(credentials, **nats):
    key = credentials.OPERATOR
    return credentials.token("operator", key, key.public, "o", nats)


def test_an_operator_with_accounts_in_memory(read, credentials):
    options = read(credentials.operator_config())
    operator = options.operator
    assert operator is not None and not operator.resolver_dir
    assert operator.trusted_keys == (
        credentials.OPERATOR.public,
        credentials.OPERATOR_SIGNING.public,
    )
    assert len(operator.preloaded) == len(credentials.accounts())
    assert options.system_account == credentials.account_key("SYS").public
    assert operator.default_sentinel == credentials.users()["sentinel"]
    assert options.accounts == () and options.warnings == ()


def test_a_file_with_the_jwt(read, tmp_path, credentials):
    file = tmp_path / "operator.jwt"
    file.write_text(
        f"-----BEGIN NATS OPERATOR JWT-----\n{operator_jwt(credentials)}\n------END NATS x------\n"
    )
    options = read(f'operator: "{file}"\nresolver: MEM')
    assert options.operator is not None and not options.operator.preloaded


def test_keys_without_an_operator(read, credentials):
    options = read(f"trusted_keys: {credentials.OPERATOR.public}\nresolver: MEMORY")
    assert options.operator is not None
    assert options.operator.trusted_keys == (credentials.OPERATOR.public,)


def test_the_folder_of_accounts(read, credentials):
    system = credentials.account_key("SYS").public
    resolver = 'resolver: {type: full, dir: "/x", allow_delete: true, limit: 5, interval: "2m"}'
    options = read(f"operator: OPERATOR\nsystem_account: {system}\n{resolver}")
    assert options.operator is not None
    assert (options.operator.resolver_dir, options.operator.may_delete) == ("/x", True)


def test_the_system_account_of_the_operator(read, credentials):
    system = credentials.account_key("SYS").public
    jwt = operator_jwt(credentials, system_account=system)
    preload = f"resolver_preload {{ {system}: {credentials.accounts()['SYS']} }}"
    pinned = f"resolver_pinned_accounts: [{credentials.account_key('A').public}]"
    options = read(f"operator: {jwt}\nresolver: MEMORY\n{preload}\n{pinned}")
    assert options.operator is not None and options.system_account == system
    assert options.operator.pinned_accounts == (credentials.account_key("A").public, system)


def test_without_an_operator_the_others_have_no_effect(read):
    options = read("resolver: MEMORY\ndefault_sentinel: x")
    assert options.operator is None
    assert all("has no effect without an operator" in each for each in options.warnings)
    assert len(options.warnings) == 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("operator: nowhere\nresolver: MEMORY", "open nowhere: no such file or directory"),
        ("operator: 5\nresolver: MEMORY", "error parsing operators: unsupported type int64"),
        ("operator: OPERATOR", "operators require an account resolver to be configured"),
        ("operator: OPERATOR\nresolver: FOO", "error parsing account resolver, should be MEM"),
        ("operator: OPERATOR\nresolver: URL(http://x)", "not supported by this server"),
        ("operator: OPERATOR\nresolver: 5", "error parsing operator resolver, wrong type int64"),
        ("operator: OPERATOR\nresolver: {type: x}", "error parsing account resolver"),
        ("operator: OPERATOR\nresolver: {type: cache, dir: x}", "not supported by this server"),
        ("operator: OPERATOR\nresolver: {type: full}", "dir has no value"),
        ("operator: OPERATOR\nresolver: {type: full, dir: x, ttl: 5s}", "does not accept ttl"),
        ("operator: OPERATOR\nresolver: {type: full, dir: x}", "using nats based account resolver"),
        ("operator: OPERATOR\nresolver: MEM\nsystem_account: A", "account missing"),
        ("operator: OPERATOR\nresolver: MEM\nresolver_preload {A: 5}", "should be a string JWT"),
        ("operator: OPERATOR\nresolver: MEM\nresolver_preload {A: x}", "invalid account JWT"),
        ("operator: OPERATOR\nresolver: MEM\naccounts {A {}}", "do not allow Accounts"),
        (
            "operator: OPERATOR\nresolver: MEM\nauthorization {users: [{user: a, password: b}]}",
            "do not allow users",
        ),
        ("operator: OPERATOR\nresolver: MEM\nno_auth_user: a", "no_auth_user not compatible"),
        ("operator: OPERATOR\nresolver: MEM\ndefault_sentinel: x", "sentinel JWT not valid"),
        ("operator: OPERATOR\nresolver: MEM\nresolver_pinned_accounts: [x]", "pinned account key"),
        ("trusted: xyz\nresolver: MEM", 'trust key "xyz" required to be'),
    ],
)
def test_mistakes(read, text, error):
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert error in str(caught.value)
    assert str(caught.value).count("\n") == 1


def test_mistakes_of_the_operator(read, credentials):
    system, other = (credentials.account_key(name).public for name in ("SYS", "A"))
    plain = credentials.users()["plain"]
    preload = f"resolver_preload {{ {other}: {credentials.account('A', {})} }}"
    for text, error in (
        (
            f"operator: {operator_jwt(credentials, system_account=system)}\nresolver: MEM\n"
            f"system_account: {other}\n{preload}",
            "system_account in config and operator JWT must be identical",
        ),
        (f"operator: OPERATOR\nresolver: MEM\ndefault_sentinel: {plain}", "must be a bearer token"),
        (f"operator: {plain}\nresolver: MEM", "not operator claim"),
        (
            f"operator: OPERATOR\nresolver: MEM\ntrusted_keys: {credentials.OPERATOR.public}",
            "conflicting options",
        ),
        (
            f"operator: {operator_jwt(credentials, signing_keys=['x'])}\nresolver: MEM",
            "required to be a valid public operator nkey",
        ),
    ):
        with pytest.raises(ConfigError, match=error):
            read(text)


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("", ""),
        ("2.1.99", ""),
        ("v2.10.0", ""),
        ("3.0.0", "expected major version 3"),
        ("2.99.0", "expected minor version 99"),
        ("new", "expects version new"),
        ("9" * 5000 + ".0.0", "which is none"),
    ],
)
def test_the_version_an_operator_wants(read, credentials, version, error):
    text = f"operator: {operator_jwt(credentials, assert_server_version=version)}\nresolver: MEM"
    if not error:
        assert read(text).operator is not None
        return
    with pytest.raises(ConfigError, match=error):
        read(text)
