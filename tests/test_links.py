"""Links that lead out of the repository: their form, as tests have no network.

Those between pages are checked when the site is built.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.pages import ROOT, pages

# Where pages may lead to; what is not here is a mistake, or is added on purpose.
HOSTS = {
    "docs.nats.io": "what NATS says of itself",
    "github.com": "sources, and decisions of the NATS project",
}
# What only looks like a link: a namespace of XML, names that belong to nobody (RFC 2606), servers
# on the own machine.
NO_LINKS = re.compile(
    r"https?://(www\.w3\.org/2000/svg|([\w.-]+\.)?example(\.com)?|127\.0\.0\.1)\b"
)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"""\bhttps?:[^\s<>"'`\])}|]*|\]\((\w+:[^)]*)\)""")
PAGES = sorted({*pages(), ROOT / "server/README.md", ROOT / "jetstream_spark/README.md"})


def links(text: str) -> list[str]:
    """The external links of a page, code apart."""
    found = (match[1] or match[0] for match in _LINK.finditer(_FENCE.sub("", text)))
    return [link.rstrip(".,;:") for link in found if not NO_LINKS.match(link)]


def fault(link: str) -> str:
    """What is wrong with a link; nothing if it is as it should be."""
    parts = urlsplit(link)
    if parts.scheme != "https":
        return "not https"
    if parts.netloc not in HOSTS:
        return f"'{parts.netloc}' is not one of the hosts that pages lead to"
    if parts.query or re.search(r"//|[^\w./~-]", parts.path):
        return "a path that nobody wrote by hand"
    return ""


def of_all() -> list[tuple[Path, str]]:
    return [(page, link) for page in PAGES for link in links(page.read_text())]


def test_every_link_has_the_form_of_one_and_a_known_host():
    faults = [(page.relative_to(ROOT), link, fault(link)) for page, link in of_all()]
    assert [each for each in faults if each[2]] == []


def test_every_host_is_led_to():
    assert {urlsplit(link).netloc for _, link in of_all()} == HOSTS.keys()


@pytest.mark.parametrize(
    "link",
    [
        "http://docs.nats.io/",
        "https://docs.nats.io:8443/",
        "https://me@github.com/",
        "https://docs.nats.io.evil.org/",
        "https://github.com/a//b",
        "https://github.com/a?tab=readme",
        "https:docs.nats.io",
        "mailto:somebody@nats.io",
    ],
)
def test_a_link_of_another_form_is_noticed(link):
    [found] = links(f"See [it]({link}).")
    assert fault(found), found


def test_links_are_found_wherever_they_stand():
    text = "[a](https://docs.nats.io/a), <https://docs.nats.io/b>; https://docs.nats.io/c.\n```\nhttp://x.org\n```\n"
    assert links(text) == [f"https://docs.nats.io/{name}" for name in "abc"]
    assert links('<svg xmlns="http://www.w3.org/2000/svg"> http://127.0.0.1:8222/healthz') == []
