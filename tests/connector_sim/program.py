"""What one seed does: which streams, which options, which faults, how often. All by chance."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.connector_sim.engine import Habits

SECOND_NS = 10**9


@dataclass(slots=True)
class Program:
    """One seed's choices.

    Attributes:
        retention: of the source streams; of work queues and streams with interest the query's
            commits remove what they cover.
        streams: the source streams.
        subjects: what the query reads of them, all when empty.
        scope: who numbers what is written: a streaming query, a transaction, or a job.
        max_age_s: for how long the source streams keep messages.
        window_s: for how long the sink stream remembers ids.
        has_dead_letters: the sink stream refuses some rows, which go to a stream of their own.
        is_encrypted: connections begin with a TLS handshake.
        has_other_addresses: the option names servers that are not there, and INFO one that is.
        starts_slowly: the server lets connections wait after each start.
        dedupe, ledger: of the sink; an empty dedupe is a query that only reads.
        messages: how many are published, in how many portions over how long.
        faults: what happens to the server and to the source stream while that lasts, by weight.
        fault_pause_s: between two faults, on average.
        cut_chance, stall_max_s: of connections.
        is_lossy: messages may be removed before they are read; then loss has to be told of.
        kind: what was added to the simulator later, "" for nothing of it.
        target: what is written to: a stream, a bucket or an object store.
        history: how many revisions of a key the bucket keeps.
        dead_window_s: for how long the stream of dead letters remembers ids, 0 as it comes.
        is_object_source: the source stream is that of an object store.
        lag_s: by how much replicas that answer direct gets are behind.
        row_stall_chance: that rows stall on their way to the sink, for longer than ids are
            remembered.
        retunes: each driver has other options for the tasks than the one before.
        put_backs: how often the server is given an older copy of its files.
        has_rivals: others write into the sink stream, before Spark is back after that.
        has_stale_leaders: the server is a cluster's, whose leader may not know what there is.
        has_crowds: at times open batches of others leave little room for those of the query, or
            those are given up when they do not come at once.
        has_servers_names: messages have headers of the names under which the server says where a
            message stands, and first lines like those of statuses.
    """

    seed: int
    retention: str = "limits"
    streams: tuple[str, ...] = ("IN",)
    subjects: str = ""
    scope: str = "query"
    max_age_s: int = 0
    window_s: int = 120
    has_dead_letters: bool = False
    is_encrypted: bool = False
    has_other_addresses: bool = False
    starts_slowly: bool = False
    fetch_mode: str = ""
    dedupe: str = "auto"
    ledger: str = "auto"
    messages: int = 40
    portions: int = 6
    lasts_s: float = 20.0
    faults: list[str] = field(default_factory=list)
    fault_pause_s: float = 3.0
    cut_chance: float = 0.0
    stall_max_s: float = 0.0
    is_lossy: bool = False
    fails_on_loss: bool = True
    kind: str = ""
    target: str = "stream"
    history: int = 1
    dead_window_s: int = 0
    is_object_source: bool = False
    lag_s: float = 0.0
    row_stall_chance: float = 0.0
    retunes: bool = False
    put_backs: int = 0
    has_rivals: bool = False
    has_servers_names: bool = False
    has_stale_leaders: bool = False
    has_crowds: bool = False
    habits: Habits = field(default_factory=Habits)
    source: dict[str, str] = field(default_factory=dict)
    sink: dict[str, str] = field(default_factory=dict)
    flush_ns: int = 2_000_000

    @property
    def is_queue(self) -> bool:
        """Whether the query's commits remove what they cover."""
        return self.retention != "limits"

    @property
    def promises_exact_output(self) -> bool:
        """Whether the output is the input, however long a batch has to be run again."""
        has_ledger = self.ledger == "auto" and self.dedupe in ("auto", "column")
        return has_ledger and self.scope != "job"

    @property
    def looks_back(self) -> bool:
        """Whether a batch is not committed when a row is gone that its tasks were told of.

        The answer to a fast batch does not tell which of its rows was the last one stored, unless
        nobody else can have stored one; and nobody looks for dead letters.
        """
        is_told = self.dedupe == "auto" or self.sink.get("publishMode") != "fast"
        has_ledger = self.ledger == "auto" and self.dedupe in ("auto", "column")
        return has_ledger and is_told and not self.has_dead_letters

    @property
    def forgets_ids(self) -> bool:
        """Whether a restarted server has forgotten ids that nothing else remembers."""
        restarts = not {"kill", "power", "stop", "host"}.isdisjoint(self.faults)
        return restarts and not self.promises_exact_output

    @property
    def reorders(self) -> bool:
        """Whether a row may be refused for the moment and taken after a later one of its key, which
        is mended when the partition ends: who no longer leads refuses one of several that are under
        way."""
        return self.has_stale_leaders and self.sink["maxInFlight"] != "1"

    @property
    def has_zombies(self) -> bool:
        """Whether an attempt may go on, or begin, that nobody waits for."""
        habits = self.habits
        return any([habits.lost, habits.speculated, habits.dies, habits.haunted])

    @property
    def loses_what_was_seen(self) -> bool:
        """Whether a server may die with messages that nobody was told of, which a look has seen."""
        return not {"kill", "power", "host"}.isdisjoint(self.faults)

    def __str__(self) -> str:
        parts = [f"{name}={getattr(self, name)}" for name in self.__slots__ if name != "seed"]
        return f"seed {self.seed}: {', '.join(parts)}"


def choose(
    seed: int,
    *,
    has_kinds: bool = True,
    has_modes: bool = True,
    has_forgetting: bool = True,
    has_retuning: bool = True,
    has_older: bool = True,
    has_rivals: bool = True,
    has_names: bool = True,
    has_clusters: bool = True,
    has_crowds: bool = True,
) -> Program:
    """The program of a seed.

    Args:
        has_kinds: whether it may be of one of the later kinds; without them seeds mean what they
            meant before.
        has_modes: likewise of fast batches, and of links on which rows stall.
        has_forgetting: likewise of servers that have forgotten the rows which were replaced.
        has_retuning: likewise of users who change options between two runs.
        has_older: likewise of servers that are given an older copy of their files.
        has_rivals: likewise of others who write into the sink stream after that.
        has_names: likewise of messages with headers of the server's names.
        has_clusters: likewise of clusters whose leader is stale for a moment.
        has_crowds: likewise of atomic batches that a server has no room for, or no time.
    """
    random = Random(f"program {seed}")
    program = Program(seed)
    if random.random() < 0.35:
        program.retention = "workqueue"
    if not program.is_queue:
        program.fetch_mode = random.choice(["", "", "consumer", "direct"])
    levels = [("auto", "auto")] * 4 + [("column", "auto")] * 2
    levels += [("auto", "none"), ("column", "none"), ("none", "none"), ("", "none"), ("", "none")]
    program.dedupe, program.ledger = random.choice(levels)
    program.messages = random.choice([6, 15, 30, 45])
    program.portions = random.randrange(1, 7)
    program.lasts_s = random.choice([2, 10, 40])
    program.flush_ns = random.choice([1, 5, 50, 200]) * 1_000_000
    _choose_options(program, random)
    _choose_faults(program, random)
    _choose_surroundings(program, Random(f"kind {seed}"))
    if has_kinds:
        _choose_kind(program, Random(f"later kind {seed}"))
        if has_modes:
            _choose_mode(program, Random(f"mode {seed}"))
            if has_forgetting:
                _choose_forgetting(program, Random(f"forgetting {seed}"))
                if has_retuning:
                    program.retunes = Random(f"retuning {seed}").random() < 0.3
                    if has_older:
                        _choose_older(program, Random(f"older {seed}"))
                        if has_rivals and program.kind == "older":
                            program.has_rivals = Random(f"rivals {seed}").random() < 0.6
    if has_kinds and has_names and not program.is_object_source:
        program.has_servers_names = Random(f"names {seed}").random() < 0.25
    if has_kinds and has_names and has_clusters:
        _choose_cluster(program, Random(f"cluster {seed}"))
        if has_crowds:
            _choose_crowd(program, Random(f"crowd {seed}"))
    return program


def _choose_cluster(program: Program, random: Random) -> None:
    # A cluster has what one of its servers was given back from the others.
    if random.random() < 0.2 and not program.put_backs:
        program.has_stale_leaders = True
        program.faults = [*program.faults, "stale", "stale"]
        program.fault_pause_s = min(program.fault_pause_s, 4)


def _choose_crowd(program: Program, random: Random) -> None:
    """A server has little room or time for batches; with dead letters, as none may come of that."""
    if program.sink.get("publishMode") != "atomic" or random.random() >= 0.5:
        return
    program.has_crowds = True
    program.faults = [*program.faults, "crowd", "crowd", "hurry", "hurry"]
    program.fault_pause_s = min(program.fault_pause_s, 4)
    program.sink["publishRetries"] = random.choice(["0", "1", "5"])
    if program.target == "stream" and random.random() < 0.7:
        program.has_dead_letters = True
        program.sink |= {"onError": "deadLetter", "deadLetterSubject": "dead.x"}


def _choose_options(program: Program, random: Random) -> None:
    source, sink = program.source, program.sink
    if random.random() < 0.6:
        source["maxOffsetsPerTrigger"] = str(random.choice([3, 7, 15]))
    source["maxOffsetsPerPartition"] = str(random.choice([2, 5, 20, 1000]))
    source["minPartitions"] = str(random.choice([1, 1, 2, 3]))
    source["fetchBatch"] = str(random.choice([1, 3, 10_000]))
    source["readTimeout"] = random.choice(["5s", "20s", "60s"])
    source["eagerCommit"] = random.choice(["true", "true", "false"])
    sink["maxInFlight"] = str(random.choice([1, 2, 5, 32_768]))
    sink["ackTimeout"] = random.choice(["1s", "5s"])
    for side in (source, sink):
        side["requestTimeout"] = random.choice(["2s", "5s", "10s"])
        side["connectTimeout"] = random.choice(["1s", "5s"])
        side["outageTimeout"] = random.choice(["15s", "60s", "5m"])
    if program.is_queue:
        source["commitMode"] = "purge"
        source["startingOffsets"] = "earliest"
    else:
        source["startingOffsets"] = "earliest"
        if program.fetch_mode:
            source["fetchMode"] = program.fetch_mode


def _choose_faults(program: Program, random: Random) -> None:
    kinds = ["kill", "stop", "power", "deaf", "rotate", "harmless config", "cut all"]
    count = random.choice([0, 0, 1, 2, 4])
    program.faults = random.sample(kinds, count)
    program.fault_pause_s = random.choice([1, 4, 15])
    program.cut_chance = random.choice([0, 0.05, 0.3, 0.7])
    program.stall_max_s = random.choice([0, 0, 2, 12, 45])
    program.habits = Habits(
        dies=random.choice([0, 0, 0.03, 0.15]),
        killed=random.choice([0, 0, 0.1, 0.3]),
        lost=random.choice([0, 0, 0.1, 0.2]),
        speculated=random.choice([0, 0, 0.2]),
        doubled=random.choice([0, 0.3]),
        available_now=random.choice([0, 0, 0, 0.5, 1]),
        haunted=random.choice([0, 0, 0, 0.5]),
    )
    if not program.is_queue and random.random() < 0.25:
        program.is_lossy = True
        program.fails_on_loss = random.random() < 0.5
        program.source["failOnDataLoss"] = str(program.fails_on_loss).lower()
        program.faults += random.sample(["purge", "recreate", "fewer"], random.randrange(1, 3))


def _choose_surroundings(program: Program, random: Random) -> None:
    """What else there is beside one stream, one address, and a streaming query."""
    if not program.is_lossy and random.random() < 0.2:
        program.retention = "interest"
        program.source |= {"commitMode": "ack", "consumer": "anchor"}
    program.streams += random.choice([(), (), (), ("ALSO",), ("ALSO", "THIRD")])
    if random.random() < 0.25:
        has_one = program.source.get("commitMode") == "purge" or program.fetch_mode == "direct"
        program.subjects = "*.a" if has_one else random.choice(["*.a", "*.a,*.b"])
        program.source["subjects"] = program.subjects
    if program.dedupe and random.random() < 0.2:
        program.scope = random.choice(["txn", "txn", "job"])
    if program.dedupe and random.random() < 0.15:
        program.has_dead_letters = True
        program.sink |= {"onError": "deadLetter", "deadLetterSubject": "dead.x"}
    if program.is_lossy and random.random() < 0.4:
        program.max_age_s = random.choice([2, 8])
    program.is_encrypted = random.random() < 0.15
    if program.promises_exact_output and random.random() < 0.5:
        program.window_s = random.choice([1, 5, 20])
    program.has_other_addresses = random.random() < 0.2
    program.starts_slowly = random.random() < 0.2
    if program.has_other_addresses and random.random() < 0.5:
        program.faults.append("move")
    servers = {"servers": "nats://gone:4222,nats://sim:4222,nats://mute:4222"}
    for side in (program.source, program.sink):
        side |= {"tlsFirst": "true"} if program.is_encrypted else {}
        side |= servers if program.has_other_addresses else {}


def _choose_kind(program: Program, random: Random) -> None:
    """One of the later kinds, or none, as far as it goes with the rest."""
    kinds = ["", "", "", "", "atomic", "atomic", "bucket", "bucket", "objects", "objects", "origin"]
    kind = random.choice([*kinds, "lag", "dead", "anew", "late"])
    if kind in ("bucket", "objects", "origin") and program.is_lossy:
        kind = "atomic"
    if kind == "anew" and not program.is_queue:
        kind = "lag"
    program.kind = kind
    # Most of what an idle query costs is that it asks how far its streams are.
    program.source["pollInterval"] = random.choice(["100ms", "1s", "1s", "1s"])
    if kind in ("atomic", "bucket", "objects", "dead", "late") and not program.dedupe:
        program.dedupe, program.ledger = "auto", "auto"
        program.window_s = random.choice([1, 20, 120])
    match kind:
        case "atomic":
            unit = random.choice(["block", "partition"])
            rows = random.choice([2, 3, 1000]) if unit == "block" else 1000
            batches = {"publishMode": "atomic", "atomicUnit": unit, "atomicRows": str(rows)}
            program.sink |= batches
        case "bucket":
            _write_elsewhere(program, "bucket")
            program.history = random.choice([1, 1, 3, 64])
            if random.random() < 0.3:
                program.sink |= {"publishMode": "atomic"}
                if not program.promises_exact_output:
                    # Rows that are replaced leave a batch undecided until its ids are forgotten:
                    # a known limit (docs/options.md#atomic-batches).
                    program.history = 64
        case "objects":
            _write_elsewhere(program, "objects")
        case "origin":
            _read_objects(program)
        case "lag":
            _let_replicas_lag(program, random)
        case "dead":
            program.has_dead_letters = True
            program.sink |= {"onError": "deadLetter", "deadLetterSubject": "dead.x"}
            program.dead_window_s = random.choice([1, 5, 20])
        case "anew":
            program.is_lossy, program.fails_on_loss = True, random.random() < 0.3
            program.source["failOnDataLoss"] = str(program.fails_on_loss).lower()
            program.faults = [*program.faults, "recreate"]
        case "late":
            _let_frames_come_late(program, random)
    if kind in ("atomic", "bucket", "objects", "dead") and random.random() < 0.5:
        _break_off_often(program)


def _write_elsewhere(program: Program, target: str) -> None:
    program.target = target
    program.has_dead_letters = False
    for key in ("onError", "deadLetterSubject"):
        program.sink.pop(key, None)
    if target == "objects":
        program.sink.pop("maxInFlight")
        program.dedupe = "auto" if program.dedupe == "column" else program.dedupe


def _read_objects(program: Program) -> None:
    program.is_object_source = True
    program.streams, program.retention, program.subjects = ("OBJ_IN",), "limits", ""
    program.fetch_mode = ""
    for key in ("commitMode", "consumer", "subjects", "fetchMode"):
        program.source.pop(key, None)


def _let_replicas_lag(program: Program, random: Random) -> None:
    program.lag_s = random.choice([0.3, 1, 3])
    if program.retention != "workqueue":
        program.fetch_mode = program.source["fetchMode"] = "direct"
        if "," in program.subjects:
            program.subjects = program.source["subjects"] = "*.a"


def _break_off_often(program: Program) -> None:
    """Attempts end in the middle of their rows, and others follow when ids are forgotten."""
    program.habits.killed, program.habits.dies = 0.3, 0.15
    program.source["maxOffsetsPerPartition"] = "20"
    program.source.pop("maxOffsetsPerTrigger", None)
    program.messages, program.portions = max(program.messages, 30), min(program.portions, 2)
    program.flush_ns = 200_000_000
    if "maxInFlight" in program.sink:
        program.sink["maxInFlight"] = "1"
    if program.promises_exact_output:
        program.window_s = 1


def _choose_mode(program: Program, random: Random) -> None:
    """Fast batches, and rows that stall on their way while attempts follow each other."""
    is_plain = "publishMode" not in program.sink and program.target != "objects"
    if program.dedupe and is_plain and random.random() < 0.35:
        program.sink["publishMode"] = "fast"
    if program.kind == "late":
        program.row_stall_chance = random.choice([0.05, 0.2])
        # What is still on its way when the faults are over does not arrive.
        program.lasts_s = max(program.lasts_s, 40)


def _choose_forgetting(program: Program, random: Random) -> None:
    """Attempts end in the middle of their rows, the server restarts, and no ledger remembers.

    What the next attempt stores anew may cover a later row of its key. Nobody else writes, so the
    last row of each key has to be the last one of its partition all the same.
    """
    if program.kind not in ("", "bucket") or program.is_lossy or random.random() >= 0.25:
        return
    program.kind = "forgotten"
    _write_elsewhere(program, "bucket")
    for key in ("publishMode", "atomicUnit", "atomicRows"):
        program.sink.pop(key, None)
    program.dedupe, program.ledger, program.window_s, program.history = "auto", "none", 120, 1
    program.scope = random.choice(["query", "query", "txn"])
    program.habits = Habits(killed=random.choice([0, 0.2]), doubled=random.choice([0, 0.3]))
    program.faults = ["host", "host", random.choice(["kill", "stop", "cut all", "host"])]
    program.fault_pause_s, program.lasts_s = random.choice([0.5, 2]), 20
    program.cut_chance, program.stall_max_s = random.choice([0, 0.05]), random.choice([0, 0, 2])
    program.streams, program.messages, program.portions = ("IN",), random.choice([30, 60]), 3
    program.flush_ns = random.choice([20, 100]) * 1_000_000
    program.source |= {"maxOffsetsPerPartition": "20", "minPartitions": "1"}
    program.source.pop("maxOffsetsPerTrigger", None)
    program.sink["maxInFlight"] = random.choice(["1", "1", "2", "5"])
    if random.random() < 0.3:
        program.sink["publishMode"] = "fast"


def _choose_older(program: Program, random: Random) -> None:
    """The server's files are put back from an older copy, and what is published goes on."""
    if program.kind or random.random() >= 0.4:
        return
    program.kind = "older"
    program.put_backs = random.choice([1, 1, 1, 2])
    if not program.is_lossy and random.random() < 0.4:
        program.is_lossy, program.fails_on_loss = True, False
        program.source["failOnDataLoss"] = "false"
    # A copy from before a stream was made anew would be a stream of another kind yet.
    program.faults = [each for each in program.faults if each not in ("recreate", "fewer")]
    program.max_age_s = 0
    program.messages, program.portions = random.choice([30, 60]), random.choice([4, 12, 30])
    program.lasts_s = random.choice([10, 20, 40])


def _let_frames_come_late(program: Program, random: Random) -> None:
    """Attempts end while what they sent is on its way for longer than ids are remembered."""
    habits = program.habits
    habits.killed, habits.lost = random.choice([0.1, 0.3]), random.choice([0.1, 0.3])
    program.stall_max_s = random.choice([12, 45])
    if program.promises_exact_output:
        program.window_s = random.choice([1, 5])
