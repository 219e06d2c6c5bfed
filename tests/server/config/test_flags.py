"""The command line, and how it goes over the configuration file."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.flags import USAGE, Exit, Flags, check, parse, resolve
from jetstream_server.config.options import ServerOptions, TlsOptions

VERSION = "2.15.1"


def options(*argv: str) -> ServerOptions:
    flags = parse(argv, VERSION)
    assert isinstance(flags, Flags), flags
    return resolve(flags, {})


def test_no_flags_are_the_defaults() -> None:
    assert options() == ServerOptions()
    assert options("--") == ServerOptions()


@pytest.mark.parametrize(
    "argv",
    [
        ["-a", "::1", "-p", "-1", "-n", "A", "-m", "8222", "-P", "pid", "-l", "log"],
        ["-addr=::1", "-port=-1", "-name=A", "-http_port=8222", "-pid=pid", "-log=log"],
        [
            "--net",
            "::1",
            "--port",
            "-1",
            "--server_name",
            "A",
            "--http_port=0x201e",
            "--pid",
            "pid",
            "--log=log",
        ],
    ],
)
def test_every_spelling(argv: list[str]) -> None:
    made = options(*argv)
    assert (made.host, made.port, made.server_name) == ("::1", -1, "A")
    assert (made.http_port, made.pid_file, made.log_file) == (8222, "pid", "log")


def test_jetstream_flags() -> None:
    assert options("-js", "-sd=dir").jetstream.is_enabled
    made = options("--jetstream", "--store_dir", "dir").jetstream
    assert (made.is_enabled, made.store_dir) == (True, "dir")
    assert not options("-sd", "dir").jetstream.is_enabled
    assert not options("-js=false").jetstream.is_enabled


def test_logging_flags() -> None:
    made = options("-DV", "-T=false", "--logtime_utc")
    assert (made.is_debugging, made.is_tracing, made.is_tracing_verbosely) == (True, True, False)
    assert (made.is_logging_time, made.is_logging_utc) == (False, True)
    assert options("-D").is_debugging
    assert options("-V").is_tracing
    assert options("-VV").is_tracing_verbosely
    assert options("-DVV").is_debugging
    assert not options("-D=0").is_debugging


def test_credentials() -> None:
    made = options("--user", "u", "--pass", "p").authorization
    assert (made.user, made.password, made.is_required) == ("u", "p", True)
    assert options("--auth", "t").authorization.token == "t"
    with pytest.raises(ConfigError, match="Cannot have a user/pass and token"):
        options("--user", "u", "--auth", "t")


@pytest.mark.parametrize("argv", [["-v"], ["--version"], ["version"], ["version", "x"]])
def test_version(argv: list[str]) -> None:
    assert parse(argv, VERSION) == Exit(0, "nats-server: v2.15.1\n")


@pytest.mark.parametrize("argv", [["-h"], ["--help"], ["help"]])
def test_help(argv: list[str]) -> None:
    assert parse(argv, VERSION) == Exit(0, USAGE)


MISTAKES = [
    ["-nope"],
    ["--nope=1"],
    ["-p", "abc"],
    ["-p=abc"],
    ["--port=abc"],
    ["-p"],
    ["-c"],
    ["-T=maybe"],
    ["-js=maybe"],
    ["-p", "99999999999999999999"],
    ["---x"],
    ["-=x"],
    ["-v", "-p", "abc"],
    ["foo"],
    ["-"],
    ["-T", "false"],
    ["-t"],
    ["-t", "foo"],
    ["-t", "--", "foo"],
    ["-h=false", "-t"],
    ["-p", "0x10", "-t"],
    ["-p", "010", "-t"],
    ["-p", "09", "-t"],
]


@pytest.mark.genuine
def test_mistakes_end_as_in_the_genuine_server(genuine_binary: str) -> None:
    for argv in MISTAKES:
        run = subprocess.run([genuine_binary, *argv], capture_output=True, text=True, timeout=20)
        outcome = parse(argv, VERSION)
        assert isinstance(outcome, Exit), argv
        assert (outcome.code, outcome.error) == (run.returncode, run.stderr), argv
        assert bool(outcome.output) == bool(run.stdout), argv


def test_a_bad_flag_prints_the_usage_and_ends_well() -> None:
    text = 'invalid value "abc" for flag -p: parse error\n'
    assert parse(["-p", "abc"], VERSION) == Exit(0, USAGE, text)


@pytest.mark.parametrize("argv", [["--routes", "a,b"], ["-cluster", "x"], ["-ms=5"]])
def test_flags_not_served_are_refused(argv: list[str]) -> None:
    outcome = parse(argv, VERSION)
    assert isinstance(outcome, Exit)
    assert outcome.code == 1
    assert "is not supported by this server" in outcome.error
    assert isinstance(parse(["--no_advertise=false"], VERSION), Flags)


def test_flags_go_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "n.conf"
    file.write_text("port: 5000\ndebug: true\njetstream { store_dir: a, domain: hub }\nhost: h")
    made = options("-c", str(file), "-p", "6000", "-D=false", "-sd", "b")
    assert (made.port, made.is_debugging, made.host) == (6000, False, "h")
    assert (made.jetstream.store_dir, made.jetstream.domain) == ("b", "hub")
    assert made.jetstream.is_enabled
    assert made.config_file == str(file)


def test_credentials_do_not_mix_with_users_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "n.conf"
    file.write_text("authorization { users: [ { user: a, pass: b } ] }")
    with pytest.raises(ConfigError, match="cannot be used with a configuration file"):
        options("-c", str(file), "--user", "x")


def test_spaces_in_the_server_name() -> None:
    with pytest.raises(ConfigError, match="server name cannot contain spaces"):
        options("-n", "a b")


def test_a_file_that_says_nothing_is_only_warned_of_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "n.conf"
    path.write_text("# nothing yet\n")
    flags = parse(["-c", str(path), "-p", "4333"], "v")
    assert isinstance(flags, Flags)
    started = resolve(flags, may_be_empty=True)
    assert started.warnings == (f"{path}: config has no values or is empty",)
    assert (started.port, started.config_file) == (4333, str(path))
    with pytest.raises(ConfigError, match="no values or is empty"):
        resolve(flags)
    outcome = check(flags)
    assert (outcome.code, "no values or is empty" in outcome.error) == (1, True)


def test_check(tmp_path: Path) -> None:
    file = tmp_path / "n.conf"
    file.write_text("port: 1")
    flags = parse(["-t", "-c", str(file)], VERSION)
    assert isinstance(flags, Flags)
    assert flags.is_check
    digest = "sha256:5b27b68e52c25859a76c94f378c31d5a499ca677a46b38fb5f58ded229b59650"
    text = f"nats-server: configuration file {file} is valid ({digest})\n"
    assert check(flags, {}) == Exit(0, "", text)
    file.write_text("porte: 1")
    error = f'nats-server: {file}:1:0: unknown field "porte"\n\n'
    assert check(flags, {}) == Exit(1, "", error)
    file.unlink()
    error = f"nats-server: open {file}: no such file or directory\n"
    assert check(flags, {}) == Exit(1, "", error)


@given(st.lists(st.text(alphabet="-=phtvjsD10x", max_size=6), max_size=4))
def test_any_words_give_an_outcome(argv: list[str]) -> None:
    assert isinstance(parse(argv, VERSION), Flags | Exit)


def test_tls_by_flags() -> None:
    def tls_of(*argv: str) -> TlsOptions | None:
        flags = parse(argv, VERSION)
        assert isinstance(flags, Flags)
        return resolve(flags, {}).tls

    assert tls_of() is None
    assert tls_of("--tls=false", "--tlscert", "c") is None
    made = tls_of("--tlscert", "c.pem", "--tlskey", "k.pem", "--tlsverify", "--tlscacert", "ca.pem")
    assert made == TlsOptions("c.pem", "k.pem", "ca.pem", is_verifying=True)
    with pytest.raises(ConfigError, match="TLS Server certificate must be present and valid"):
        tls_of("--tls")
    with pytest.raises(ConfigError, match="TLS Server private key must be present and valid"):
        tls_of("--tls", "--tlscert", "c.pem")
