"""Streams that are made when somebody publishes."""

from __future__ import annotations

import json
from random import Random

import pytest
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.jetstream.catalog import stream_template
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.catalog.stream_template import StreamTemplateConfig
from jetstream_server.jetstream.configs.account_limits import AccountLimits
from jetstream_server.jetstream.configs.stream_config import OriginConfig, StreamConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Output, Publish
from jetstream_server.jetstream.wire import go_json
from jetstream_server.node.router import Router
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.vault import MemoryVault


class Account:
    """A catalog behind a router."""

    def __init__(self, vault: MemoryVault | None = None, limits: AccountLimits | None = None):
        self.now = 1_700_000_000 * 10**9
        self.vault = vault or MemoryVault()
        sublist = Sublist()
        self.output = Output(sublist)
        self.logged: list[str] = []
        self.context = Context("$G", "n", "", sublist, self.output, Nuid(Random(1)))
        self.context.log = lambda level, text: self.logged.append(text)
        self.catalog = Catalog(self.context, self.vault, limits)
        self.catalog.recover(self.now)
        self.router = Router(sublist, Random(1), self.catalog.report)

    def template(self, called="T", streams=2, **config):
        fields = {"subjects": ["t.*"], "storage": "memory"} | config
        return self.catalog.templates.create(
            StreamTemplateConfig(name=called, config=StreamConfig(**fields), max_streams=streams)
        )

    def publish(self, *subjects: bytes) -> list[dict]:
        """Publish one run, and return the answers."""
        self.now += 1
        self.output.sends.clear()
        self.output.sends_after_flush.clear()
        run = PubRun.of([(subject, b"reply", b"", b"x") for subject in subjects])
        self.router.route(run, None, self.now)
        return [
            json.loads(send.run.payload(at))
            for send in self.output.sends + self.output.sends_after_flush
            if isinstance(send, Publish)
            for at in range(send.run.count)
            if send.run.subject(at) == b"reply"
        ]

    def counts(self) -> dict[str, int]:
        return {
            name: stream.store.state().messages for name, stream in self.catalog.streams.items()
        }


@pytest.fixture
def account() -> Account:
    return Account()


def test_the_first_message_makes_the_stream_and_is_in_it(account):
    account.template()
    assert account.publish(b"t.a") == [{"stream": "t_a", "seq": 1}]
    assert account.publish(b"t.a") == [{"stream": "t_a", "seq": 2}]
    assert account.catalog.streams["t_a"].config.subjects == ["t.a"]


def test_a_run_over_old_and_new_subjects(account):
    account.template(streams=9)
    account.publish(b"t.old")
    answers = account.publish(b"t.a", b"t.old", b"t.b", b"t.a", b"t.a", b"t.b", b"t.old")
    assert account.counts() == {"t_old": 3, "t_a": 3, "t_b": 2}
    assert sorted((each["stream"], each["seq"]) for each in answers) == [
        ("t_a", 1), ("t_a", 2), ("t_a", 3), ("t_b", 1), ("t_b", 2), ("t_old", 2), ("t_old", 3),
    ]  # fmt: skip


def test_what_another_stream_captures_makes_none(account):
    account.catalog.create(StreamConfig(name="S", subjects=["t.s"], storage="memory"), account.now)
    account.template()
    assert account.publish(b"t.s") == [{"stream": "S", "seq": 1}]
    assert account.counts() == {"S": 1}


def test_at_the_limit_publishers_are_refused(account):
    template = account.template(streams=1)
    account.publish(b"t.a")
    (refused,) = account.publish(b"t.b")
    assert refused["error"]["err_code"] == 10027
    assert refused["stream"] == "t_b"
    account.publish(b"t.c", b"t.d")
    assert ["made no stream 't_b'" in line for line in account.logged] == [True]
    account.catalog.delete("t_a", account.now)
    assert template.streams() == []
    assert account.publish(b"t.b") == [{"stream": "t_b", "seq": 1}]


@pytest.mark.parametrize("streams", [-1, 0])
def test_without_limit(account, streams):
    assert account.template(streams=streams).config.max_streams == -1
    account.publish(*[b"t.%d" % number for number in range(50)])
    assert len(account.counts()) == 50


def test_limits_of_the_account_hold(account):
    account = Account(limits=AccountLimits(max_streams=1))
    account.template(streams=-1)
    answers = account.publish(b"t.a", b"t.b")
    assert answers[0] == {"stream": "t_a", "seq": 1}
    assert answers[1]["error"]["err_code"] == 10027


def test_subjects_that_make_no_name(account):
    account.template(subjects=["t.>"], streams=-1)
    account.publish(b"t.a.b")
    assert account.publish(b"t.a_b")[0]["error"]["err_code"] == 10058
    assert account.publish(b"t.x/y")[0]["error"]["err_code"] == 10052
    assert account.publish(b"t." + b"x" * 300)[0]["error"]["err_code"] == 10052
    assert account.publish(b"t.\xff")[0]["error"]["err_code"] == 10052
    assert account.counts() == {"t_a_b": 1}


@pytest.mark.parametrize(
    ("name", "config", "wanted"),
    [
        ("x" * 256, {}, (10066, "template name is too long, maximum allowed is 255")),
        ("T", {"name": "S"}, (10066, "template config name should be empty")),
        ("T", {"template_owner": "U"}, (10066, "template config owner should be empty")),
        ("T", {"subjects": []}, (10066, "template config needs subjects")),
        ("T", {"subjects": ["u.*"], "num_replicas": 3}, (10074, None)),
        ("T", {"subjects": ["a..b"]}, (10052, None)),
        (
            "T",
            {"subjects": ["u", "*.a"]},
            (10066, 'template subjects overlap with those of template "OLD"'),
        ),
        ("OLD", {}, (10066, 'template with name "OLD" already exists')),
    ],
)
def test_refused(account, name, config, wanted):
    account.template("OLD")
    with pytest.raises(ApiError) as refusal:
        account.template(name, **config)
    assert refusal.value.err_code == wanted[0]
    assert wanted[1] in (None, refusal.value.description)
    assert account.catalog.templates.names() == ["OLD"]


def test_delete_takes_the_streams_along(account):
    account.template()
    account.publish(b"t.a", b"t.b")
    account.catalog.create(StreamConfig(name="S", subjects=["s"], storage="memory"), account.now)
    account.catalog.templates.delete("T", account.now)
    assert account.counts() == {"S": 0}
    assert account.publish(b"t.a") == []
    with pytest.raises(ApiError, match="template not found"):
        account.catalog.templates.delete("T", account.now)


def test_a_stream_that_can_not_be_removed(account, monkeypatch):
    account.template()
    account.publish(b"t.a")

    def fail(name, now):
        raise StoreError("no space left", "/x")

    monkeypatch.setattr(account.catalog, "delete", fail)
    with pytest.raises(ApiError) as refusal:
        account.catalog.templates.delete("T", account.now)
    assert refusal.value.err_code == 10067
    assert account.catalog.templates.names() == ["T"]


def test_templates_survive_a_restart(account):
    account.template(max_age=5_000_000_000)
    account.publish(b"t.a")
    again = Account(account.vault)
    template = again.catalog.templates.template("T")
    assert template.config == account.catalog.templates.template("T").config
    assert template.streams() == ["t_a"]
    assert again.catalog.templates.owns("T", "t_a")
    assert again.publish(b"t.b") == [{"stream": "t_b", "seq": 1}]


def test_what_was_accepted_comes_back_although_less_is_accepted_now(account, monkeypatch):
    sources = [OriginConfig(name="A"), OriginConfig(name="B")]
    account.template(sources=sources)
    monkeypatch.setattr(go_json, "OBJECTS_MAX", 1)
    again = Account(account.vault)
    assert again.catalog.templates.template("T").config.config.sources == sources


def test_a_template_has_no_very_long_list_of_subjects(account, monkeypatch):
    subjects = [f"u.*.{n:010}" for n in range(1000)]
    account.template("U", subjects=subjects)
    with pytest.raises(ApiError, match="too long together, maximum allowed is 16384 bytes"):
        account.template("V", subjects=[f"v.*.{n:010}" for n in range(1200)])
    monkeypatch.setattr(stream_template, "SUBJECTS_BYTES_MAX", 1)
    again = Account(account.vault)
    assert again.catalog.templates.template("U").config.config.subjects == subjects


def test_a_file_that_can_not_be_read_is_reported(account):
    account.vault.folder(".templates", memory=False).config().save(b'{"templates":[{"name":1}]}')
    again = Account(account.vault)
    assert "stream templates can not be read" in again.logged[-1]
