"""Stream templates: a stream for each subject of a pattern, made when it is first published to.

A template listens to its subjects. A message that no stream captures yet makes one, named after the
subject with `_` for `.`, which takes the message and from then on is a stream like others, except
that it cannot be changed and goes with its template. At the template's limit publishers are
refused.

nats-server has dropped templates; this follows nats-server 2.9 and the published schemas of the
API. Where those disagree the schemas win: -1 streams is no limit and a template's config has no
name. Unlike there, templates survive a restart and do not overlap, no stream is made beyond the
limit, and a publisher that cannot be served is told so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol

import orjson
from pydantic import Field

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.pattern_tree import PatternTree, TooManyMeetError
from jetstream_server.core.steps import without_pauses
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.account_limits import ServerLimits
from jetstream_server.jetstream.configs.stream_checks import NAME_BYTES_MAX
from jetstream_server.jetstream.configs.stream_config import StreamConfig, with_defaults
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.storing.pub_ack import PubAck
from jetstream_server.jetstream.wire.go_json import ALWAYS, GoModel, Int, decode, encode

if TYPE_CHECKING:
    from jetstream_server.store.ports import StateFile

# Of the subjects of one template, which are compared with those of others in one turn.
SUBJECTS_BYTES_MAX = 16 * 1024
# Stands for the name of a stream that is still to be made.
_PLACEHOLDER = "_"


class StreamTemplateConfig(GoModel):
    """What a client asks a template to be."""

    go_name: ClassVar[str] = "StreamTemplateConfig"
    name: Annotated[str, ALWAYS] = ""
    config: Annotated[StreamConfig, ALWAYS] = Field(default_factory=StreamConfig.model_construct)
    max_streams: Annotated[Int, ALWAYS] = 0


class StreamMaker(Protocol):
    """Where templates make streams, and find those that they made."""

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The streams that serve, by name."""
        ...

    @property
    def server_limits(self) -> ServerLimits:
        """What holds for every stream of the server."""
        ...

    def check_template(self, config: StreamConfig) -> None:
        """Refuse a config that no stream of a template could have."""
        ...

    def create(self, config: StreamConfig, now: int) -> Stream:
        """Make a stream."""
        ...

    def delete(self, name: str, now: int) -> None:
        """Remove a stream with its messages."""
        ...


class StreamTemplate:
    """One template.

    Attributes:
        config: with defaults filled in.
    """

    def __init__(
        self, catalog: StreamMaker, context: Context, config: StreamTemplateConfig
    ) -> None:
        self._catalog = catalog
        self._context = context
        self.config = config
        self._logged = 0  # the last refusal that was logged; a flood of them says so once
        self._subscriptions = [
            Subscription(subject, self) for subject in config.config.subject_patterns
        ]

    def subscribe(self) -> None:
        """Start making streams."""
        for subscription in self._subscriptions:
            self._context.sublist.insert(subscription)

    def unsubscribe(self) -> None:
        """Make no more streams."""
        for subscription in self._subscriptions:
            self._context.sublist.remove(subscription)

    def streams(self) -> list[str]:
        """Return the names of the streams that it made, oldest first."""
        owned = [
            stream
            for stream in self._catalog.streams.values()
            if stream.config.template_owner == self.config.name
        ]
        return [stream.name for stream in sorted(owned, key=lambda each: each.created)]

    def receive(self, stretch: Stretch) -> None:
        """Make streams for messages that no stream takes, and hand the messages to them."""
        subjects = {stretch.run.subject(index) for index in stretch.indices}
        missed = {subject for subject in subjects if self._capturing(subject) is None}
        _Missed(self, stretch, missed).receive(stretch.now)

    def hand_over(self, stretch: Stretch, index: int, now: int) -> None:
        """Hand one message to the stream of its subject, which is made if there is none."""
        run, subject = stretch.run, stretch.run.subject(index)
        found = self._capturing(subject)
        if found is None:
            try:
                self._make(subject, now)
            except (ApiError, StoreError) as error:
                self._refuse(run.reply(index), subject, error)
                return
            found = self._capturing(subject)
        if found is not None:
            found.receiver.receive(Stretch(run, index, index + 1, found, stretch.sender, now))

    def _capturing(self, subject: bytes) -> Subscription | None:
        found = self._context.sublist.match(subject).plain
        return next((each for each in found if isinstance(each.receiver, Stream)), None)

    def _make(self, subject: bytes, now: int) -> None:
        config, catalog = self.config, self._catalog
        if 0 < config.max_streams <= len(self.streams()):
            raise errors.MAXIMUM_STREAMS_LIMIT()
        text = subject.decode(errors="replace")
        if text.encode() != subject:
            raise errors.STREAM_INVALID_CONFIG("a subject that is not UTF-8 names no stream")
        name = text.replace(".", "_")
        if name in catalog.streams:  # of another subject, such as a_b of a.b
            raise errors.STREAM_NAME_EXIST()
        wanted = config.config.changed(name=name, subjects=[text], template_owner=config.name)
        catalog.create(wanted, now)
        self._logged = 0

    def _refuse(self, reply: bytes, subject: bytes, error: ApiError | StoreError) -> None:
        if isinstance(error, StoreError):
            error = errors.STREAM_STORE_FAILED(error.reason)
        name = subject.decode(errors="replace").replace(".", "_")
        if error.err_code != self._logged:
            self._logged = error.err_code
            self._context.log(
                "WRN",
                f"template '{self.config.name}' made no stream '{name}' of account"
                f" {self._context.account}: {error.description}",
            )
        if reply:
            self._context.output.publish(reply, PubAck(name, "").refused(error))


class _Missed:
    """Messages from the next one on, some of whose subjects no stream took when they came.
    Postponable: streams that are made of them put messages off like others, and those that follow
    keep their order.
    """

    def __init__(self, template: StreamTemplate, stretch: Stretch, subjects: set[bytes]) -> None:
        self._template = template
        self._stretch = stretch
        self._subjects = subjects
        self._next = stretch.start

    def receive(self, now: int) -> None:
        """Hand them over, up to one that is put off."""
        stretch, answers = self._stretch, self._stretch.answers
        if stretch.subscription.closed:  # the template is gone, and its streams
            if stretch.sender is not None:
                stretch.sender.unanswered(stretch.run, self._next, stretch.stop)
            return
        while self._next < stretch.stop:
            index = self._next
            self._next += 1
            if stretch.run.subject(index) in self._subjects:
                self._template.hand_over(stretch, index, now)
            if answers is not None and answers.postponed and self._next < stretch.stop:
                answers.postpone(self)
                return


class StreamTemplates:
    """The templates of an account.

    Args:
        catalog: where they make streams.
        context: what the parts of the account's JetStream share.
        file: where they are kept, all in one.
    """

    def __init__(self, catalog: StreamMaker, context: Context, file: StateFile) -> None:
        self._catalog = catalog
        self._context = context
        self._file = file
        self._templates: dict[str, StreamTemplate] = {}

    def names(self) -> list[str]:
        """Return the names of all, sorted."""
        return sorted(self._templates)

    def template(self, name: str) -> StreamTemplate:
        """Return one.

        Raises:
            ApiError: 10068 there is none.
        """
        if name not in self._templates:
            raise errors.STREAM_TEMPLATE_NOT_FOUND()
        return self._templates[name]

    def create(self, config: StreamTemplateConfig) -> StreamTemplate:
        """Make one.

        Raises:
            ApiError: 10066, or what is wrong with the config of its streams.
        """
        if len(config.name.encode()) > NAME_BYTES_MAX:
            raise errors.STREAM_TEMPLATE_CREATE_FAILED(
                f"template name is too long, maximum allowed is {NAME_BYTES_MAX}"
            )
        if config.config.name:
            raise errors.STREAM_TEMPLATE_CREATE_FAILED("template config name should be empty")
        if config.config.template_owner:
            raise errors.STREAM_TEMPLATE_CREATE_FAILED("template config owner should be empty")
        if config.name in self._templates:
            text = f'template with name "{config.name}" already exists'
            raise errors.STREAM_TEMPLATE_CREATE_FAILED(text)
        if not config.config.subjects:
            raise errors.STREAM_TEMPLATE_CREATE_FAILED("template config needs subjects")
        if sum(len(subject) + 1 for subject in config.config.subjects) > SUBJECTS_BYTES_MAX:
            raise errors.STREAM_TEMPLATE_CREATE_FAILED(
                "template subjects are too long together, maximum allowed is"
                f" {SUBJECTS_BYTES_MAX} bytes"
            )
        self._check_overlap(config.config)
        self._catalog.check_template(config.config.changed(name=_PLACEHOLDER))
        completed = with_defaults(config.config, self._catalog.server_limits.duplicate_window_ns)
        streams_max = config.max_streams if config.max_streams > 0 else -1
        template = self._add(
            config.model_copy(update={"config": completed, "max_streams": streams_max})
        )
        self._save()
        return template

    def delete(self, name: str, now: int) -> None:
        """Remove one, with its streams and their messages.

        Raises:
            ApiError: 10068 there is none; 10067 a stream cannot be removed.
        """
        template = self.template(name)
        template.unsubscribe()
        try:
            for stream in template.streams():
                self._catalog.delete(stream, now)
        except StoreError as error:
            template.subscribe()
            raise errors.STREAM_TEMPLATE_DELETE_FAILED(error.reason) from error
        del self._templates[name]
        self._save()

    def owns(self, name: str, stream: str) -> bool:
        """Tell whether a template of that name has made a stream."""
        return name in self._templates and stream in self._templates[name].streams()

    def recover(self) -> None:
        """Take over what is in the file.

        Raises:
            StoreError: the file cannot be read.
        """
        data = self._file.load()
        if data is None:
            return
        try:
            for stored in orjson.loads(data)["templates"]:
                text = orjson.dumps(stored)
                self._add(decode(text, StreamTemplateConfig, strict=False, is_stored=True))
        except (ApiError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"the stream templates can not be read: {error}") from None

    def _check_overlap(self, config: StreamConfig) -> None:
        """Refuse subjects for which two templates would make streams."""
        wanted = PatternTree(config.subject_patterns)
        for name, template in self._templates.items():
            try:
                theirs = PatternTree(template.config.config.subject_patterns)
                is_taken = without_pauses(wanted.overlaps(theirs))
            except TooManyMeetError:
                is_taken = True
            if is_taken:
                raise errors.STREAM_TEMPLATE_CREATE_FAILED(
                    f'template subjects overlap with those of template "{name}"'
                )

    def _add(self, config: StreamTemplateConfig) -> StreamTemplate:
        template = self._templates[config.name] = StreamTemplate(
            self._catalog, self._context, config
        )
        template.subscribe()
        return template

    def _save(self) -> None:
        kept = [self._templates[name].config.to_wire() for name in self.names()]
        self._file.save(encode({"templates": kept}))
