import pytest
from jetstream_server.config.claims.info_url import url_problem


@pytest.mark.parametrize(
    "text",
    [
        "http://a", "HTTP://A", "ftp://x", "https://a.b/c d", "a-+.1://b", "http://a:99999",
        "http://h:", "http://u:p@h", "http://[::1]:80", "http://[fe80::1%25en0]/", "http://a?%zz",
        "http://a#b c", "http://é", "http://h%c3%a9", "http://a@b@c", "http://a]", 'http://a<"b',
    ],
)  # fmt: skip
def test_addresses(text):
    assert url_problem(text) == ""


@pytest.mark.parametrize(
    "text",
    ["x", "/a", "//a.b", "a.b", "http:", "http://", "mailto:x@y", "a:b:c", "http://:80", "#a"],
)
def test_without_a_host_or_a_scheme(text):
    assert url_problem(text) == "no hostname or scheme"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("h\ttp://a", "net/url: invalid control character in URL"),
        ("://", "missing protocol scheme"),
        ("1x:y", "first path segment in URL cannot contain colon"),
        ("%zz", 'invalid URL escape "%zz"'),
        ("http://a/%4", 'invalid URL escape "%4"'),
        ("http://a#%zz", 'invalid URL escape "%zz"'),
        ("http://a%20b", 'invalid URL escape "%20"'),
        ("http://a b", 'invalid character " " in host name'),
        ("http://a\\\\b", 'invalid character "\\\\" in host name'),
        ("http://h:8a", 'invalid port ":8a" after host'),
        ("http://[::1]x", 'invalid port "x" after host'),
        ("http://[::1", "missing ']' in host"),
        ("http://a[b]", "invalid IP-literal"),
        ("http://[a]", 'invalid host: ParseAddr("a"): unable to parse IP'),
        ("http://[::1%25]", 'invalid host: ParseAddr("::1%"): zone must be a non-empty string'),
        ("http://u p@h", "net/url: invalid userinfo"),
        ("http://u%zz@h", 'invalid URL escape "%zz"'),
    ],
)
def test_why_a_text_is_no_address(text, wrong):
    told = url_problem(text)
    assert told.startswith("parse ") and told.endswith(f": {wrong}")
