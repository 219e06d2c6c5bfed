"""Why a text is no address of a page, as Go's library tells it."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

from jetstream_server.config.claims.claimed_subjects import quoted

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_ESCAPE_OF_A_HOST = re.compile(r"%(?![89A-Fa-f][0-9A-Fa-f]).{0,2}", re.DOTALL)
_NO_HOST = re.compile(r"[\x00-\x20\\^`{|}#%/?@]")
_NO_USER = re.compile(r"[^A-Za-z0-9._:~!$&'()*+,;=%@-]")
_PORT = re.compile(r"(:[0-9]*)?")


class _UrlError(ValueError):
    """Why it is none."""


def url_problem(text: str) -> str:
    """Return why a text is no absolute address with a host, empty if it is one."""
    try:
        has_host = _has_host(text)
    except _UrlError as error:
        return f"parse {quoted(text)}: {error}"
    return "" if has_host else "no hostname or scheme"


def _has_host(text: str) -> bool:
    """Tell whether an address has a scheme and a host."""
    before, _, fragment = text.partition("#")
    if _CONTROLS.search(before) is not None:
        raise _UrlError("net/url: invalid control character in URL")
    if before.startswith(":"):
        raise _UrlError("missing protocol scheme")
    found = _SCHEME.match(before)
    scheme, rest = (found[1], before[found.end() :]) if found is not None else ("", before)
    rest = rest.partition("?")[0]
    if scheme and not rest.startswith("/"):
        return False
    if not scheme and ":" in rest.partition("/")[0]:
        raise _UrlError("first path segment in URL cannot contain colon")
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest, host = slash + path, _host(authority)
    _refuse_escape(_ESCAPE, rest)
    _refuse_escape(_ESCAPE, fragment)
    return bool(scheme and host)


def _host(authority: str) -> str:
    """Return the name of a host, which may stand between a user and a port."""
    user, _, host = authority.rpartition("@")
    name = _checked_host(host)
    if _NO_USER.search(user) is not None:
        raise _UrlError("net/url: invalid userinfo")
    _refuse_escape(_ESCAPE, user)
    return name


def _checked_host(host: str) -> str:
    at = host.find("[")
    if at > 0:
        raise _UrlError("invalid IP-literal")
    if at == 0:
        return _checked_literal(host)
    name, colon, port = host.partition(":")
    if _PORT.fullmatch(colon + port) is None:
        raise _UrlError(f"invalid port {quoted(colon + port)} after host")
    _refuse_escape(_ESCAPE_OF_A_HOST, name)
    if (wrong := _NO_HOST.search(name.replace("%", ""))) is not None:
        raise _UrlError(f"invalid character {quoted(wrong[0])} in host name")
    return name


def _checked_literal(host: str) -> str:
    """Return an address between brackets."""
    name, bracket, port = host[1:].rpartition("]")
    if not bracket:
        raise _UrlError("missing ']' in host")
    if _PORT.fullmatch(port) is None:
        raise _UrlError(f"invalid port {quoted(port)} after host")
    address, percent, zone = name.partition("%25")
    _refuse_escape(_ESCAPE_OF_A_HOST, address)
    _refuse_escape(_ESCAPE, zone)
    if percent and not zone:
        text = f"ParseAddr({quoted(address + '%')}): zone must be a non-empty string"
        raise _UrlError(f"invalid host: {text}")
    try:
        IPv6Address(address)
    except ValueError:
        raise _UrlError(f"invalid host: ParseAddr({quoted(name)}): unable to parse IP") from None
    return name


def _refuse_escape(pattern: re.Pattern[str], text: str) -> None:
    if (wrong := pattern.search(text)) is not None:
        raise _UrlError(f"invalid URL escape {quoted(wrong[0])}")
