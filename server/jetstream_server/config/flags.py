"""The command line: flags to `ServerOptions`, which override what the configuration file says.

Flags are read as the genuine server reads them: one dash or two, `=` or a space before the value,
boolean flags only with `=`; a flag that does not exist prints the usage and ends with code 0.
Nothing here prints or exits: `cli.py` does what an `Exit` says.

Specification: docs/reference/configuration.md#flags.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jetstream_server.base.errors import ConfigError
from jetstream_server.config.lexer import EmptyConfigError
from jetstream_server.config.load import load, options_of
from jetstream_server.config.options import ServerOptions, TlsOptions

USAGE = """
Usage: nats-server [options]

Server Options:
    -a, --addr, --net <host>         Listen on this host (default: 0.0.0.0)
    -p, --port <port>                Listen on this port for clients, -1 for any (default: 4222)
    -n, --name, --server_name <name> Name of the server (default: its id)
    -P, --pid <file>                 Write the process id to this file
    -m, --http_port <port>           Serve monitoring over HTTP on this port
    -c, --config <file>              Read this configuration file
    -t                               Check the configuration file and exit
    -sl, --signal <signal>=<pid>     Send stop, quit, term, reload, reopen or ldm to a
                                     server, by its process id or the file with it
        --client_advertise <url>     Tell clients this address
        --ports_file_dir <dir>       Write the ports in use to a file in this folder

Logging Options:
    -l, --log <file>                 Log to this file
    -T, --logtime                    Begin log lines with the time (default: true)
        --logtime_utc                In UTC (default: false)
    -D, --debug                      Log for debugging
    -V, --trace                      Log the protocol
    -VV                              Log the protocol of the system account, too
    -DV                              Both debug and trace
    -DVV                             Both debug and verbose trace
        --log_size_limit <bytes>     Start a new log file at this size
        --max_traced_msg_len <bytes> Log at most so much of a message

JetStream Options:
    -js, --jetstream                 Enable JetStream
    -sd, --store_dir <dir>           Store streams in this folder

Authorization Options:
        --user <user>                Require this user
        --pass <password>            Require this password
        --auth <token>               Require this token

TLS Options:
        --tls                        Require TLS of clients
        --tlscert <file>             The server's certificate
        --tlskey <file>              Its private key
        --tlsverify                  Require certificates of clients
        --tlscacert <file>           Who may have signed them

Common Options:
    -h, --help                       Show this message
    -v, --version                    Show the version
"""

_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]*|[1-9][0-9_]*)")
_INTEGER_CHARACTERS_MAX = 100  # 64 bits in binary, with underscores
_INT64_MAX = 2**63 - 1
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


@dataclass(slots=True)
class Exit:
    """The command is already done: what to print, and the exit code."""

    code: int
    output: str = ""
    error: str = ""


@dataclass(slots=True)
class Flags:
    """What the command line says; None if not given."""

    host: str | None = None
    port: int | None = None
    server_name: str | None = None
    client_advertise: str | None = None
    pid_file: str | None = None
    http_port: int | None = None
    ports_file_dir: str | None = None
    log_file: str | None = None
    log_size_limit: int | None = None
    max_traced_message_length: int | None = None
    is_logging_time: bool | None = None
    is_logging_utc: bool | None = None
    is_debugging: bool | None = None
    is_tracing: bool | None = None
    is_tracing_verbosely: bool | None = None
    is_tls: bool | None = None
    is_verifying: bool | None = None
    cert_file: str | None = None
    key_file: str | None = None
    ca_file: str | None = None
    user: str | None = None
    password: str | None = None
    token: str | None = None
    is_jetstream: bool | None = None
    store_dir: str | None = None
    config: str = ""
    signal: str = ""
    is_check: bool = False
    debug_and_trace: bool = False
    debug_and_verbose_trace: bool = False
    shows_help: bool = False
    shows_version: bool = False
    refused: str = ""


# Every flag with the field it sets and the type of its value.
_FLAGS: dict[str, tuple[str, type]] = {
    **dict.fromkeys(("a", "addr", "net"), ("host", str)),
    **dict.fromkeys(("p", "port"), ("port", int)),
    **dict.fromkeys(("n", "name", "server_name"), ("server_name", str)),
    **dict.fromkeys(("P", "pid"), ("pid_file", str)),
    **dict.fromkeys(("m", "http_port"), ("http_port", int)),
    **dict.fromkeys(("c", "config"), ("config", str)),
    "t": ("is_check", bool),
    "client_advertise": ("client_advertise", str),
    "ports_file_dir": ("ports_file_dir", str),
    **dict.fromkeys(("l", "log"), ("log_file", str)),
    "log_size_limit": ("log_size_limit", int),
    "max_traced_msg_len": ("max_traced_message_length", int),
    **dict.fromkeys(("T", "logtime"), ("is_logging_time", bool)),
    "logtime_utc": ("is_logging_utc", bool),
    **dict.fromkeys(("D", "debug"), ("is_debugging", bool)),
    **dict.fromkeys(("V", "trace"), ("is_tracing", bool)),
    "VV": ("is_tracing_verbosely", bool),
    "DV": ("debug_and_trace", bool),
    "DVV": ("debug_and_verbose_trace", bool),
    **dict.fromkeys(("js", "jetstream"), ("is_jetstream", bool)),
    **dict.fromkeys(("sd", "store_dir"), ("store_dir", str)),
    "tls": ("is_tls", bool),
    "tlsverify": ("is_verifying", bool),
    "tlscert": ("cert_file", str),
    "tlskey": ("key_file", str),
    "tlscacert": ("ca_file", str),
    "user": ("user", str),
    "pass": ("password", str),
    "auth": ("token", str),
    **dict.fromkeys(("sl", "signal"), ("signal", str)),
    **dict.fromkeys(("h", "help"), ("shows_help", bool)),
    **dict.fromkeys(("v", "version"), ("shows_version", bool)),
}

# Flags of the genuine server that cannot be ignored: without them this server would not be what was
# asked for.
_REFUSED: dict[str, type] = {
    **dict.fromkeys(("no_advertise", "s", "syslog"), bool),
    **dict.fromkeys(("r", "remote_syslog"), str),
    **dict.fromkeys(("routes", "cluster", "cluster_name", "cluster_listen"), str),
    "cluster_advertise": str,
    **dict.fromkeys(("ms", "https_port", "profile", "connect_retries"), int),
}


class _FlagError(Exception):
    """The command line cannot be read; the text is for stderr."""


def parse(argv: Sequence[str], version: str) -> Flags | Exit:
    """Read a command line, without the name of the program.

    Args:
        argv: the words.
        version: shown by `-v`.
    """
    try:
        flags, words = _read(argv)
    except _FlagError as error:
        return Exit(0, USAGE, f"{error}\n")
    if flags.shows_version or words[:1] == ["version"]:
        return Exit(0, f"nats-server: v{version}\n")
    if flags.shows_help or words[:1] == ["help"]:
        return Exit(0, USAGE)
    if words:
        return Exit(1, "", f'nats-server: unrecognized command: "{words[0]}"\n')
    if flags.refused:
        text = f"--{flags.refused} is not supported by this server; remove the flag"
        return Exit(1, "", f"nats-server: {text}\n")
    if flags.is_check and not flags.config:
        text = "must specify [-c, --config] option to check configuration file syntax"
        return Exit(1, "", f"nats-server: {text}\n")
    return flags


def check(flags: Flags, environment: Mapping[str, str] = os.environ) -> Exit:
    """Do what `-t` asks for: say whether the configuration file is valid."""
    try:
        options = load(flags.config, environment)
    except ConfigError as error:
        return Exit(1, "", f"nats-server: {error}\n")
    text = f"configuration file {flags.config} is valid ({options.config_digest})"
    return Exit(0, "", f"nats-server: {text}\n")


def resolve(
    flags: Flags, environment: Mapping[str, str] = os.environ, *, may_be_empty: bool = False
) -> ServerOptions:
    """Return the options: defaults, then the file, then the flags.

    Args:
        may_be_empty: an empty file only causes a warning, as in the genuine server when it starts;
            a reload refuses it.

    Raises:
        ConfigError: the file is wrong, or flags contradict it.
    """
    options = ServerOptions()
    try:
        if flags.config:
            options = load(flags.config, environment)
    except EmptyConfigError as error:
        if not may_be_empty:
            raise
        options = dataclasses.replace(options_of(error.token), warnings=(str(error).strip(),))
    given = {name: value for name in _SAME_NAMES if (value := getattr(flags, name)) is not None}
    if flags.debug_and_trace or flags.debug_and_verbose_trace:
        given.update(is_debugging=True, is_tracing=True)
    if flags.is_tracing_verbosely or flags.debug_and_verbose_trace:
        given.update(is_tracing=True, is_tracing_verbosely=True)
    if " " in given.get("server_name", ""):
        raise ConfigError("server name cannot contain spaces")
    jetstream: dict[str, Any] = {}
    if flags.is_jetstream is not None:
        jetstream["is_enabled"] = flags.is_jetstream
    if flags.store_dir is not None:
        jetstream["store_dir"] = flags.store_dir
    if jetstream:
        given["jetstream"] = dataclasses.replace(options.jetstream, **jetstream)
    options = _with_tls(dataclasses.replace(options, **given), flags)
    return _with_credentials(options, flags)


def _with_tls(options: ServerOptions, flags: Flags) -> ServerOptions:
    given = {
        name: value
        for name in ("is_verifying", "cert_file", "key_file", "ca_file")
        if (value := getattr(flags, name)) is not None
    }
    if flags.is_tls is False:
        return dataclasses.replace(options, tls=None)
    if not flags.is_tls and not given:
        return options
    tls = dataclasses.replace(options.tls or TlsOptions(), **given)
    if not tls.cert_file:
        raise ConfigError("TLS Server certificate must be present and valid")
    if not tls.key_file:
        raise ConfigError("TLS Server private key must be present and valid")
    return dataclasses.replace(options, tls=tls)


def _with_credentials(options: ServerOptions, flags: Flags) -> ServerOptions:
    given = {
        name: value
        for name in ("user", "password", "token")
        if (value := getattr(flags, name)) is not None
    }
    if not given:
        return options
    if options.authorization.users or any(account.users for account in options.accounts):
        raise ConfigError(
            "--user, --pass and --auth cannot be used with a configuration file that has users"
        )
    authorization = dataclasses.replace(options.authorization, **given)
    if authorization.user and authorization.token:
        raise ConfigError("Cannot have a user/pass and token")
    return dataclasses.replace(options, authorization=authorization)


_SAME_NAMES = tuple(
    [
        field.name
        for field in dataclasses.fields(Flags)
        if field.name in {option.name for option in dataclasses.fields(ServerOptions)}
    ]
)


def _read(argv: Sequence[str]) -> tuple[Flags, list[str]]:
    """Return the flags and the words after them."""
    flags = Flags()
    waiting = list(argv)
    while waiting:
        word = waiting[0]
        if len(word) < 2 or not word.startswith("-"):
            break
        waiting.pop(0)
        if word == "--":
            break
        name, equals, text = word[2 if word.startswith("--") else 1 :].partition("=")
        if not name or name.startswith("-"):
            raise _FlagError(f"bad flag syntax: {word}")
        field, wanted = _FLAGS.get(name, ("refused", _REFUSED.get(name, type(None))))
        if wanted is type(None):
            raise _FlagError(f"flag provided but not defined: -{name}")
        value: Any
        if wanted is bool:
            value = _boolean(name, text) if equals else True
        else:
            if not equals:
                if not waiting:
                    raise _FlagError(f"flag needs an argument: -{name}")
                text = waiting.pop(0)
            value = _integer(name, text) if wanted is int else text
        if field != "refused":
            setattr(flags, field, value)
        elif value is not False:
            flags.refused = name
    return flags, waiting


def _boolean(name: str, text: str) -> bool:
    if text not in _BOOLEANS:
        raise _FlagError(f'invalid boolean value "{text}" for -{name}: parse error')
    return _BOOLEANS[text]


def _integer(name: str, text: str) -> int:
    if _INTEGER.fullmatch(text) is None or len(text) > _INTEGER_CHARACTERS_MAX:
        raise _FlagError(f'invalid value "{text}" for flag -{name}: parse error')
    digits = text.lstrip("+-").replace("_", "").lower()
    # A leading zero means octal, as in Go.
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdecimal()
    number = int(digits, 8 if is_octal else 0)
    if number > _INT64_MAX:
        raise _FlagError(f'invalid value "{text}" for flag -{name}: value out of range')
    return -number if text.startswith("-") else number
