"""Every refusal a JetStream request can meet: one table of code, err_code and text.

Each constant makes an `ApiError`: `raise errors.STREAM_NOT_FOUND()`, and with a text to fill in,
`raise errors.STREAM_INVALID_CONFIG("maximum replicas is 5")`. Numbers and texts are the genuine
server's, because client libraries compare them; only those this server emits are listed. What is
sent for an error is decided in `api/dispatch.py`, and for publishes in `streams/publishing.py`.
"""

from __future__ import annotations

from jetstream_server.base.errors import ApiError


class Refusal:
    """One row: makes `ApiError`s with the row's numbers and its text filled in.

    Attributes:
        code: status in the manner of HTTP.
        err_code: the number clients switch on.
        template: the text; each `{}` takes one argument of the call.
    """

    __slots__ = ("code", "err_code", "template")

    def __init__(self, code: int, err_code: int, template: str) -> None:
        self.code = code
        self.err_code = err_code
        self.template = template

    def __call__(self, *values: object) -> ApiError:
        """Return the error, to be raised or put into a reply."""
        assert self.template.count("{}") == len(values), (self.template, values)
        # Plain replacement, not str.format: texts quote subjects and JSON, braces included.
        text = self.template
        if values:
            head, *rest = text.split("{}")
            text = head + "".join(
                f"{value}{part}" for value, part in zip(values, rest, strict=True)
            )
        return ApiError(self.code, self.err_code, text)

    def __repr__(self) -> str:
        return f"Refusal({self.code}, {self.err_code}, {self.template!r})"


TABLE: dict[int, Refusal] = {}


def _row(err_code: int, code: int, template: str) -> Refusal:
    assert err_code not in TABLE, err_code
    refusal = TABLE[err_code] = Refusal(code, err_code, template)
    return refusal


# -- requests -------------------------------------------------------------------------------
BAD_REQUEST = _row(10003, 400, "bad request")
CLUSTER_REQUIRED = _row(10010, 503, "JetStream clustering support required")
INVALID_JSON = _row(10025, 400, "invalid JSON: {}")
NOT_EMPTY_REQUEST = _row(10038, 400, "expected an empty request payload")
NOT_ENABLED_FOR_ACCOUNT = _row(10039, 503, "JetStream not enabled for account")
PEDANTIC = _row(10157, 400, "pedantic mode: {}")
REQUIRED_API_LEVEL = _row(10185, 412, "JetStream minimum api level required")

# -- limits of the account and the server ----------------------------------------------------
ACCOUNT_RESOURCES_EXCEEDED = _row(10002, 400, "resource limits exceeded for account")
INSUFFICIENT_RESOURCES = _row(10023, 503, "insufficient resources")
MAXIMUM_CONSUMERS_LIMIT = _row(10026, 400, "maximum consumers limit reached")
MAXIMUM_STREAMS_LIMIT = _row(10027, 400, "maximum number of streams reached")
MEMORY_RESOURCES_EXCEEDED = _row(10028, 500, "insufficient memory resources available")
STORAGE_RESOURCES_EXCEEDED = _row(10047, 500, "insufficient storage resources available")
STREAM_MAX_BYTES_REQUIRED = _row(
    10113, 400, "account requires a stream config to have max bytes set"
)
NO_LIMITS = _row(10120, 400, "no JetStream default or applicable tiered limit present")
STREAM_MAX_STREAM_BYTES_EXCEEDED = _row(
    10122, 400, "stream max bytes exceeds account limit max stream bytes"
)

# -- streams ----------------------------------------------------------------------------------
NO_MESSAGE_FOUND = _row(10037, 404, "no message found")
SEQUENCE_NOT_FOUND = _row(10043, 400, "sequence {} not found")
STREAM_CREATE_FAILED = _row(10049, 500, "{}")
STREAM_GENERAL_ERROR = _row(10051, 500, "{}")
STREAM_INVALID_CONFIG = _row(10052, 500, "{}")
STREAM_MISMATCH = _row(10056, 400, "stream name in subject does not match request")
STREAM_MSG_DELETE_FAILED = _row(10057, 500, "{}")
STREAM_NAME_EXIST = _row(10058, 400, "stream name already in use with a different configuration")
STREAM_NOT_FOUND = _row(10059, 404, "stream not found")
STREAM_SUBJECT_OVERLAP = _row(10065, 400, "subjects overlap with an existing stream")
STREAM_UPDATE_FAILED = _row(10069, 500, "{}")
STREAM_REPLICAS_NOT_SUPPORTED = _row(10074, 500, "replicas > 1 not supported in non-clustered mode")
STREAM_SEALED = _row(10109, 400, "invalid operation on sealed stream")
STREAM_PURGE_FAILED = _row(10110, 500, "{}")
STREAM_NAME_CONTAINS_PATH_SEPARATORS = _row(
    10128, 400, "Stream name can not contain path separators"
)
REPLICAS_NEGATIVE = _row(10133, 400, "replicas count cannot be negative")
STREAM_TRANSFORM_INVALID_SOURCE = _row(10155, 400, "stream transform source: {}")
STREAM_TRANSFORM_INVALID_DESTINATION = _row(10156, 400, "stream transform: {}")
STREAM_OFFLINE_REASON = _row(10194, 500, "stream is offline: {}")

# -- stream templates -------------------------------------------------------------------------
STREAM_TEMPLATE_CREATE_FAILED = _row(10066, 500, "{}")
STREAM_TEMPLATE_DELETE_FAILED = _row(10067, 500, "{}")
STREAM_TEMPLATE_NOT_FOUND = _row(10068, 404, "template not found")
TEMPLATE_NAME_NOT_MATCH_SUBJECT = _row(
    10073, 400, "template name in subject does not match request"
)

# -- snapshots --------------------------------------------------------------------------------
SNAPSHOT_DELIVER_SUBJECT_INVALID = _row(10015, 400, "deliver subject not valid")
STREAM_RESTORE_FAILED = _row(10062, 500, "restore failed: {}")
STREAM_SNAPSHOT_FAILED = _row(10064, 500, "snapshot failed: {}")
STREAM_NAME_EXIST_RESTORE_FAILED = _row(10130, 400, "stream name already in use, cannot restore")

# -- mirrors and sources ----------------------------------------------------------------------
STREAM_EXTERNAL_API_OVERLAP = _row(
    10021, 400, "stream external api prefix {} must not overlap with {}"
)
STREAM_EXTERNAL_DELIVERY_WILDCARDS = _row(
    10024, 400, "stream external delivery prefix {} must not contain wildcards"
)
MIRROR_MAX_MESSAGE_SIZE_TOO_BIG = _row(
    10030, 400, "stream mirror must have max message size >= source"
)
MIRROR_WITH_SOURCES = _row(10031, 400, "stream mirrors can not also contain other sources")
MIRROR_WITH_SUBJECTS = _row(10034, 400, "stream mirrors can not contain subjects")
STREAM_MIRROR_NOT_UPDATABLE = _row(10055, 400, "stream mirror configuration can not be updated")
SOURCE_MAX_MESSAGE_SIZE_TOO_BIG = _row(
    10046, 400, "stream source must have max message size >= target"
)
SOURCE_DUPLICATE_DETECTED = _row(10140, 400, "duplicate source configuration detected")
SOURCE_INVALID_STREAM_NAME = _row(10141, 400, "sourced stream name is invalid")
MIRROR_INVALID_STREAM_NAME = _row(10142, 400, "mirrored stream name is invalid")
MIRROR_WITH_FIRST_SEQ = _row(10143, 400, "stream mirrors can not have first sequence configured")
SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED = _row(
    10144,
    400,
    "source with multiple subject transforms cannot also have a single subject filter",
)
SOURCE_INVALID_SUBJECT_FILTER = _row(10145, 400, "source transform source: {}")
SOURCE_INVALID_TRANSFORM_DESTINATION = _row(10146, 400, "source transform: {}")
SOURCE_OVERLAPPING_SUBJECT_FILTERS = _row(10147, 400, "source filters can not overlap")
MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED = _row(
    10150,
    400,
    "mirror with multiple subject transforms cannot also have a single subject filter",
)
MIRROR_INVALID_SUBJECT_FILTER = _row(10151, 400, "mirror transform source: {}")
MIRROR_OVERLAPPING_SUBJECT_FILTERS = _row(10152, 400, "mirror subject filters can not overlap")
MIRROR_INVALID_TRANSFORM_DESTINATION = _row(10154, 400, "mirror transform: {}")
MIRROR_WITH_COUNTERS = _row(10173, 400, "stream mirrors can not also calculate counters")
MIRROR_WITH_MSG_SCHEDULES = _row(10186, 400, "stream mirrors can not also schedule messages")
SOURCE_WITH_MSG_SCHEDULES = _row(10187, 400, "stream source can not also schedule messages")
MIRROR_WITH_ATOMIC_PUBLISH = _row(10198, 400, "stream mirrors can not also use atomic publishing")
MIRROR_WITH_BATCH_PUBLISH = _row(10209, 400, "stream mirrors can not also use batch publishing")
MIRROR_CONSUMER_CONFIG_INVALID = _row(10213, 400, "stream mirror consumer config is invalid")
MIRROR_CONSUMER_REQUIRES_ACK_FC = _row(
    10214, 400, "stream mirror consumer requires flow control ack policy"
)
SOURCE_CONSUMER_CONFIG_INVALID = _row(10215, 400, "stream source consumer config is invalid")
SOURCE_CONSUMER_REQUIRES_ACK_FC = _row(
    10217, 400, "stream source consumer requires flow control ack policy"
)

# -- publishing -------------------------------------------------------------------------------
STREAM_MESSAGE_EXCEEDS_MAXIMUM = _row(10054, 400, "message size exceeds maximum allowed")
STREAM_NOT_MATCH = _row(10060, 400, "expected stream does not match")
STREAM_WRONG_LAST_MSG_ID = _row(10070, 400, "wrong last msg ID: {}")
STREAM_WRONG_LAST_SEQUENCE = _row(10071, 400, "wrong last sequence: {}")
STREAM_STORE_FAILED = _row(10077, 503, "{}")
STREAM_HEADER_EXCEEDS_MAXIMUM = _row(10097, 400, "header size exceeds maximum allowed of 64k")
STREAM_ROLLUP_FAILED = _row(10111, 500, "{}")
STREAM_WRONG_LAST_SEQUENCE_CONSTANT = _row(10164, 400, "wrong last sequence")
MESSAGE_TTL_INVALID = _row(10165, 400, "invalid per-message TTL")
MESSAGE_TTL_DISABLED = _row(10166, 400, "per-message TTL is disabled")
TOO_MANY_REQUESTS = _row(10167, 429, "too many requests")
MESSAGE_INCR_DISABLED = _row(10168, 400, "message counters is disabled")
MESSAGE_INCR_MISSING = _row(10169, 400, "message counter increment is missing")
MESSAGE_INCR_PAYLOAD = _row(10170, 400, "message counter has payload")
MESSAGE_INCR_INVALID = _row(10171, 400, "message counter increment is invalid")
MESSAGE_COUNTER_BROKEN = _row(10172, 400, "message counter is broken")
ATOMIC_PUBLISH_DISABLED = _row(10174, 400, "atomic publish is disabled")
ATOMIC_PUBLISH_MISSING_SEQ = _row(10175, 400, "atomic publish sequence is missing")
ATOMIC_PUBLISH_INCOMPLETE_BATCH = _row(10176, 400, "atomic publish batch is incomplete")
ATOMIC_PUBLISH_UNSUPPORTED_HEADER = _row(10177, 400, "atomic publish unsupported header used: {}")
ATOMIC_PUBLISH_INVALID_BATCH_ID = _row(10179, 400, "atomic publish batch ID is invalid")
ATOMIC_PUBLISH_TOO_LARGE_BATCH = _row(10199, 400, "atomic publish batch is too large: {}")
ATOMIC_PUBLISH_INVALID_BATCH_COMMIT = _row(10200, 400, "atomic publish batch commit is invalid")
ATOMIC_PUBLISH_DUPLICATE_MESSAGE = _row(
    10201, 400, "atomic publish batch contains duplicate message id"
)
ATOMIC_PUBLISH_TOO_MANY_INFLIGHT = _row(10210, 429, "atomic publish too many inflight")
# The same refusal for what the genuine server does not bound.
ATOMIC_PUBLISH_NO_ROOM = Refusal(429, 10210, "atomic publish too many inflight: {}")
MESSAGE_SCHEDULES_DISABLED = _row(10188, 400, "message schedules is disabled")
MESSAGE_SCHEDULES_PATTERN_INVALID = _row(10189, 400, "message schedules pattern is invalid")
MESSAGE_SCHEDULES_TARGET_INVALID = _row(10190, 400, "message schedules target is invalid")
MESSAGE_SCHEDULES_TTL_INVALID = _row(10191, 400, "message schedules invalid per-message TTL")
MESSAGE_SCHEDULES_ROLLUP_INVALID = _row(10192, 400, "message schedules invalid rollup")
MESSAGE_SCHEDULES_SOURCE_INVALID = _row(10203, 400, "message schedules source is invalid")
MESSAGE_SCHEDULES_SCHEDULER_INVALID = _row(10212, 400, "message schedules invalid scheduler")
MESSAGE_SCHEDULES_TIME_ZONE_INVALID = _row(10223, 400, "message schedules time zone is invalid")
STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID = _row(
    10193, 400, "missing sequence for expected last sequence per subject"
)
BATCH_PUBLISH_DISABLED = _row(10205, 400, "batch publish is disabled")
BATCH_PUBLISH_INVALID_PATTERN = _row(10206, 400, "batch publish pattern is invalid")
BATCH_PUBLISH_INVALID_BATCH_ID = _row(10207, 400, "batch publish ID is invalid")
BATCH_PUBLISH_UNKNOWN_BATCH_ID = _row(10208, 400, "batch publish ID unknown")
BATCH_PUBLISH_TOO_MANY_INFLIGHT = _row(10211, 429, "batch publish too many inflight")
MESSAGE_SOURCE_HDR_NOT_ALLOWED = _row(10227, 400, "message stream source header is not allowed")

# -- consumers --------------------------------------------------------------------------------
CONSUMER_CREATE_FAILED = _row(10012, 500, "{}")
CONSUMER_NAME_EXIST = _row(10013, 400, "consumer name already in use")
CONSUMER_NOT_FOUND = _row(10014, 404, "consumer not found")
CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT = _row(
    10017, 400, "consumer name in subject does not match durable name in request"
)
CONSUMER_DURABLE_NAME_NOT_SET = _row(
    10018, 400, "consumer expected to be durable but a durable name was not set"
)
CONSUMER_EPHEMERAL_WITH_DURABLE_NAME = _row(
    10020, 400, "consumer expected to be ephemeral but a durable name was set in request"
)
CONSUMER_DELIVER_TO_WILDCARDS = _row(10079, 400, "consumer deliver subject has wildcards")
CONSUMER_PUSH_MAX_WAITING = _row(10080, 400, "consumer in push mode can not set max waiting")
CONSUMER_DELIVER_CYCLE = _row(10081, 400, "consumer deliver subject forms a cycle")
CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED = _row(
    10082, 400, "consumer requires ack policy for max ack pending"
)
CONSUMER_SMALL_HEARTBEAT = _row(10083, 400, "consumer idle heartbeat needs to be >= 100ms")
CONSUMER_PULL_REQUIRES_ACK = _row(
    10084, 400, "consumer in pull mode requires explicit ack policy on workqueue stream"
)
CONSUMER_PULL_WITH_RATE_LIMIT = _row(
    10086, 400, "consumer in pull mode can not have rate limit set"
)
CONSUMER_HB_REQUIRES_PUSH = _row(
    10088, 400, "consumer idle heartbeat requires a push based consumer"
)
CONSUMER_FC_REQUIRES_PUSH = _row(10089, 400, "consumer flow control requires a push based consumer")
CONSUMER_DIRECT_REQUIRES_PUSH = _row(10090, 400, "consumer direct requires a push based consumer")
CONSUMER_DIRECT_REQUIRES_EPHEMERAL = _row(
    10091, 400, "consumer direct requires an ephemeral consumer"
)
CONSUMER_INVALID_POLICY = _row(10094, 400, "{}")
CONSUMER_INVALID_SAMPLING = _row(10095, 400, "failed to parse consumer sampling configuration: {}")
CONSUMER_WQ_REQUIRES_EXPLICIT_ACK = _row(10098, 400, "workqueue stream requires explicit ack")
CONSUMER_WQ_MULTIPLE_UNFILTERED = _row(
    10099, 400, "multiple non-filtered consumers not allowed on workqueue stream"
)
CONSUMER_WQ_CONSUMER_NOT_UNIQUE = _row(
    10100, 400, "filtered consumer not unique on workqueue stream"
)
CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL = _row(
    10101, 400, "consumer must be deliver all on workqueue stream"
)
CONSUMER_NAME_TOO_LONG = _row(10102, 400, "consumer name is too long, maximum allowed is {}")
CONSUMER_DESCRIPTION_TOO_LONG = _row(
    10107, 400, "consumer description is too long, maximum allowed is {}"
)
CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS = _row(
    10108, 400, "consumer with flow control also needs heartbeats"
)
CONSUMER_INVALID_DELIVER_SUBJECT = _row(10112, 400, "invalid push consumer deliver subject")
CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL = _row(
    10115, 400, "consumer max request expires needs to be >= 1ms"
)
CONSUMER_MAX_DELIVER_BACKOFF = _row(
    10116, 400, "max deliver is required to be > length of backoff values"
)
CONSUMER_MAX_PENDING_ACK_EXCESS = _row(
    10121, 400, "consumer max ack pending exceeds system limit of {}"
)
CONSUMER_MAX_REQUEST_BATCH_EXCEEDED = _row(
    10125, 400, "consumer max request batch exceeds server limit of {}"
)
CONSUMER_NAME_CONTAINS_PATH_SEPARATORS = _row(
    10127, 400, "Consumer name can not contain path separators"
)
CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH = _row(
    10131, 400, "Consumer create request did not match filtered subject from create subject"
)
CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH = _row(
    10132, 400, "Consumer Durable and Name have to be equal if both are provided"
)
CONSUMER_METADATA_LENGTH = _row(10135, 400, "consumer metadata exceeds maximum size of {}")
CONSUMER_DUPLICATE_FILTER_SUBJECTS = _row(
    10136, 400, "consumer cannot have both FilterSubject and FilterSubjects specified"
)
CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED = _row(
    10137, 400, "consumer with multiple subject filters cannot use subject based API"
)
CONSUMER_OVERLAPPING_SUBJECT_FILTERS = _row(10138, 400, "consumer subject filters cannot overlap")
CONSUMER_EMPTY_FILTER = _row(10139, 400, "consumer filter in FilterSubjects cannot be empty")
CONSUMER_OFFLINE_REASON = _row(10195, 500, "consumer is offline: {}")
CONSUMER_ALREADY_EXISTS = _row(10148, 400, "consumer already exists")
CONSUMER_DOES_NOT_EXIST = _row(10149, 400, "consumer does not exist")
CONSUMER_INACTIVE_THRESHOLD_EXCESS = _row(
    10153, 400, "consumer inactive threshold exceeds system limit of {}"
)
CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP = _row(
    10159, 400, "Setting PriorityPolicy requires at least one PriorityGroup to be set"
)
CONSUMER_INVALID_PRIORITY_GROUP = _row(
    10160, 400, "Provided priority group does not exist for this consumer"
)
CONSUMER_EMPTY_GROUP_NAME = _row(10161, 400, "Group name cannot be an empty string")
CONSUMER_INVALID_GROUP_NAME = _row(
    10162,
    400,
    "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters",
)
CONSUMER_PUSH_WITH_PRIORITY_GROUP = _row(
    10178, 400, "priority groups can not be used with push consumers"
)
CONSUMER_ACK_WAIT_NEGATIVE = _row(10183, 400, "consumer ack wait needs to be positive")
CONSUMER_BACKOFF_NEGATIVE = _row(10184, 400, "consumer backoff needs to be positive")
CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE = _row(
    10196, 400, "consumer can not have priority groups when policy is none"
)
CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE = _row(
    10197, 400, "PinnedTTL cannot be set when PriorityPolicy is none"
)
CONSUMER_INVALID_RESET = _row(10204, 400, "invalid reset: {}")
CONSUMER_ACK_FC_REQUIRES_PUSH = _row(
    10218, 400, "flow control ack policy requires a push based consumer"
)
CONSUMER_ACK_FC_REQUIRES_FC = _row(10219, 400, "flow control ack policy requires flow control")
CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING = _row(
    10220, 400, "flow control ack policy requires max ack pending"
)
CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT = _row(
    10221, 400, "flow control ack policy requires unset ack wait"
)
CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER = _row(
    10222, 400, "flow control ack policy requires unset max deliver"
)
CONSUMER_STREAM_IDENTITY_MISMATCH = _row(
    10225, 400, "consumer's stream identity does not match: {}"
)
