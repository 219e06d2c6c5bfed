# The handful of commands. `make demo` needs Python 3.11+, Java 17+ and nothing else installed.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test test-pure check kernels bench stall sim model soak fuzz differential versions pythons server-versions clean

help:
	@echo "make demo   336,776 flights through JetStream and Spark, on this machine"
	@echo "make test   install everything, then all checks and tests"
	@echo "make check  formatting, lint, types, import rules, dead code; no tests"
	@echo "make test-pure  the tests of the server and of the connector, with the kernels in pure Python"
	@echo "make coverage  which branches the tests of what has no I/O go"
	@echo "make docs   the documentation as a site, in build/site; what it warns of is an error"
	@echo "make kernels  compiles the kernels beside their sources, for work on them"
	@echo "make bench  this server beside the genuine one, on this machine"
	@echo "make stall  how long what one client sends keeps another one waiting, ours beside genuine"
	@echo "make sim    whole servers through simulated crashes, twice SIM_SEEDS times (1000)"
	@echo "make sim-connector  the connector through simulated faults, SIM_SEEDS times (20000)"
	@echo "make model  stores, streams, consumers and more beside obvious twins: thousands of examples"
	@echo "make soak   the demo again and again, SOAK_RUNS times (20), 30 crashes, a cluster's outages, copies under chaos"
	@echo "make fuzz   bad input of every kind, FUZZ_ROUNDS (200) times what the tests try"
	@echo "make fuzz-parsers  parsers and decoders, guided by coverage, FUZZ_MINUTES (60)"
	@echo "make attack  sequences of hostile input over every receiver, ATTACK_MINUTES (60)"
	@echo "make damage  damages to stores of killed servers, DAMAGE_MINUTES (10)"
	@echo "make mutants  faults planted where they would cost messages, MUTANTS (6) in a file: which do their tests miss"
	@echo "make differential  random requests to this server and the genuine one, DIFFERENTIAL_ROUNDS (1000)"
	@echo "make versions  the connector with PySpark 4.0, 4.1, 4.2 and 4.3, each in its environment"
	@echo "make pythons   the connector and the bundled server with Python 3.11 to 3.14, likewise"
	@echo "make server-versions  the connector beside nats-server 2.10 to 2.15, each installed for the while"
	@echo "make extras  each extra in an empty environment, and what it is for imported there"
	@echo "make wheels  wheels for each Python, compiled and pure, and source distributions: built and tried"
	@echo "make manifests  what Kubernetes, Compose and the workflow read, against their schemas; its wheels"
	@echo "make sbom   what an installation brings, as CycloneDX, in build/sbom"
	@echo "make clean  remove what these commands made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

SOURCES := pyproject.toml setup.py server/pyproject.toml server/setup.py $(shell find server jetstream_spark pyspark_jetstream \
             -name '*.py' -o -name '*.pyx' -o -name '*.pxd')
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# An ordinary install, as users make it, again whenever a source is newer than its stamp: Spark
# finds formats by listing the folders of installed packages, which an editable install is not in.
$(READY)-demo: $(BIN)/python $(SOURCES)
	@rm -rf build server/build
	$(INSTALL) ./server '.[demo]'
	@touch $@

$(READY)-test: $(BIN)/python $(SOURCES)
	@rm -rf build server/build
	$(INSTALL) ./server '.[cli,console,demo,test,dev]'
	@touch $@ $(READY)-demo

# Spark's Python processes look for modules where Spark was started first. Here they would find the
# sources, in which nothing is compiled.
demo: $(READY)-demo
	@cd examples && ../$(BIN)/python flights.py

# What checks look at is the sources, so an edit needs no new install: only other requirements do.
$(READY)-tools: $(BIN)/python pyproject.toml server/pyproject.toml
	@$(MAKE) --no-print-directory $(READY)-test
	@touch $@

# Types take as long as everything else, so they are looked at beside it.
check: $(READY)-tools
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(BIN)/mypy >$(VENV)/types.log 2>&1 & types=$$!; \
	PYTHONPATH=server:. $(BIN)/lint-imports && $(BIN)/vulture; others=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.log; \
	exit $$((others || types))

# Four lanes that end at about the same time, two or three parts in each of them. On two cores they
# are busy from beginning to end: a fifth lane would make nothing quicker, and late what is timed.
# A lane's part goes on, whatever the one before it found.
SPARK_TESTS     := tests/spark
PARITY_TESTS    := tests/parity
SIM_TESTS       := tests/connector_sim tests/console
BROWSER_TESTS   := tests/console/in_browser
CONNECTOR_TESTS := tests/connector
# Pipelines and the example of Spark Connect listen on the same port, so they take turns.
EXAMPLE_TESTS   := tests/test_pipeline.py tests/test_examples.py tests/benchmarks tests/cluster
# Of the server's tests what takes the most of a processor; where all else of the server is, they
# would end long after the other lanes.
BOUNDED_TESTS   := tests/server/test_bounded_work.py
PLAYED_TESTS    := tests/sim tests/attack
# With the kernels in pure Python: what is nearest to them, but for the tests that take both twins
# of a kernel by themselves.
PURE_TESTS   := $(addprefix tests/server/,kernels/test_in_use.py kernels/test_twins.py protocol)
# Half a minute of two cores for a way that the page advises against; `make soak` goes it.
SUBMIT_SLOW  := tests/spark/test_standalone.py::test_py_files_with_the_pure_kernels

# Each of the hundreds of processes that the tests start would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

# Tests are of what is installed, also in a shell where PYTHONPATH leads to the sources.
unexport PYTHONPATH

# A shorter life for a JVM: no second compiler, no collector threads.
export SPARK_SUBMIT_OPTS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC

test: $(READY)-test check
	@($(BIN)/pytest $(SPARK_TESTS) --deselect $(SUBMIT_SLOW); spark=$$?; \
	  $(BIN)/pytest $(PLAYED_TESTS) && exit $$spark) \
	  >$(VENV)/spark-tests.log 2>&1 & spark=$$!; \
	($(BIN)/pytest $(PARITY_TESTS); parity=$$?; \
	  $(BIN)/pytest $(SIM_TESTS) --ignore=$(BROWSER_TESTS); sim=$$?; \
	  $(BIN)/pytest $(BROWSER_TESTS) && exit $$((parity || sim))) \
	  >$(VENV)/parity-tests.log 2>&1 & parity=$$!; \
	($(BIN)/pytest $(CONNECTOR_TESTS); connector=$$?; \
	  $(BIN)/pytest $(BOUNDED_TESTS); bounded=$$?; \
	  $(BIN)/pytest $(EXAMPLE_TESTS) && exit $$((connector || bounded))) \
	  >$(VENV)/connector-tests.log 2>&1 & connector=$$!; \
	JETSTREAM_PURE=1 $(BIN)/pytest $(PURE_TESTS) >$(VENV)/pure-tests.log 2>&1; pure=$$?; \
	$(BIN)/pytest tests $(patsubst %,--ignore=%,$(SPARK_TESTS) $(PARITY_TESTS) $(SIM_TESTS) \
	  $(CONNECTOR_TESTS) $(BOUNDED_TESTS) $(PLAYED_TESTS) $(EXAMPLE_TESTS)); others=$$?; \
	cat $(VENV)/pure-tests.log; \
	wait $$connector; connector=$$?; cat $(VENV)/connector-tests.log; \
	wait $$parity; parity=$$?; cat $(VENV)/parity-tests.log; \
	wait $$spark; spark=$$?; cat $(VENV)/spark-tests.log; \
	exit $$((others || pure || connector || parity || spark))

# All that runs without Spark, in parts, so that each says how long it takes.
PURE_PARTS := server/store server/jetstream server/net server/node connector

test-pure: $(READY)-test
	@failed=0; for part in $(PURE_PARTS); do \
	  JETSTREAM_PURE=1 $(BIN)/pytest tests/$$part || failed=1; \
	done; \
	JETSTREAM_PURE=1 $(BIN)/pytest tests/server \
	  $(foreach part,$(filter server/%,$(PURE_PARTS)),--ignore=tests/$(part)) || failed=1; \
	exit $$failed

# Of what has no I/O, by its own tests. Coverage sees no compiled code, so kernels are pure here, and
# it looks into no other process: what whole servers play besides does not count.
COVERED := protocol core structures store jetstream
COVERED_TESTS ?= $(addprefix tests/server/,$(COVERED)) tests/connector

.PHONY: coverage
coverage: kernels
	$(INSTALL) coverage
	PYTHONPATH=server:. JETSTREAM_PURE=1 $(BIN)/coverage run -m pytest --timeout 600 $(COVERED_TESTS)
	$(BIN)/coverage report --sort cover --skip-covered
	@for part in $(addprefix */jetstream_server/,$(COVERED)) '*/jetstream_spark'; do \
	  echo "$$part: $$($(BIN)/coverage report --format total --include "$$part/*") %"; \
	done

# What only the site needs, besides what is there. All of it comes from wheels; nothing is loaded when
# the site is read.
DOCS_NEED := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])

$(READY)-docs: $(READY)-test
	$(INSTALL) $$($(BIN)/python -c '$(DOCS_NEED)')
	@touch $@

.PHONY: docs
docs: $(READY)-docs
	JETSTREAM_PURE=1 PYTHONPATH=server:. $(BIN)/python -m sphinx -q -W --keep-going -j auto -c docs -b html . build/site
	@echo "build/site/index.html"

# Kernels beside their sources, for what runs from the working copy. An edit of a source needs no new
# install for that.
kernels: $(READY)-tools
	cd server && ../$(BIN)/python setup.py --quiet build_ext --inplace
	$(BIN)/python setup.py --quiet build_ext --inplace

bench: $(READY)-test kernels
	$(BIN)/python -m benchmarks

stall: $(READY)-test kernels
	$(BIN)/python -m benchmarks.stall
	$(BIN)/python -m benchmarks.stall --sign-ins

SIM_SEEDS ?= 1000

sim: $(READY)-test
	$(BIN)/python -m tests.sim.simulator --quiet --seed 1000 --seeds $(SIM_SEEDS)
	$(BIN)/python -m tests.sim.simulator --quiet --seed 1000 --seeds $(SIM_SEEDS) --small

# Reads and writes through cuts, crashes and restarts of everything, then each byte cut.
.PHONY: sim-connector
sim-connector: SIM_SEEDS = 20000
sim-connector: $(READY)-test
	$(BIN)/python -m tests.connector_sim --seed 160 --seeds $(SIM_SEEDS)
	$(BIN)/python -m tests.connector_sim.every_cut

MODEL_PROFILE ?= soak

model: $(READY)-test
	HYPOTHESIS_PROFILE=$(MODEL_PROFILE) $(BIN)/pytest tests/models --timeout 36000

SOAK_RUNS ?= 20
CHAOS_SEED ?= 1
CHAOS_ROUNDS ?= 5

soak: $(READY)-test
	CRASH_ROUNDS=30 $(BIN)/pytest tests/crash
	CLUSTER_ROUNDS=20 $(BIN)/pytest tests/cluster
	UPLOAD_MIB=1024 $(BIN)/pytest tests/console/in_browser/test_broken_uploads.py --timeout 3600
	$(BIN)/pytest $(SUBMIT_SLOW)
	$(BIN)/python -m tests.chaos --seed $(CHAOS_SEED) --rounds $(CHAOS_ROUNDS)
	@for run in $$(seq $(SOAK_RUNS)); do \
	  echo "run $$run of $(SOAK_RUNS)"; (cd examples && ../$(BIN)/python flights.py) || exit 1; \
	done

server-versions: $(READY)-test
	$(BIN)/python -m tests.cluster.server_versions

FUZZ_ROUNDS ?= 200

fuzz: $(READY)-test
	FUZZ_ROUNDS=$(FUZZ_ROUNDS) $(BIN)/pytest tests/fuzz --timeout 3600

FUZZ_MINUTES ?= 60

# There is no atheris for every Python, so it is no dependency of the tests.
.PHONY: fuzz-parsers
fuzz-parsers: $(READY)-test
	$(INSTALL) atheris
	PYTHONPATH=server:. $(BIN)/python -m tests.fuzz.parsers --minutes $(FUZZ_MINUTES)

ATTACK_SEED ?= 1000
ATTACK_MINUTES ?= 60

.PHONY: attack
attack: kernels
	PYTHONPATH=server:. $(BIN)/python -m tests.attack --seed $(ATTACK_SEED) --minutes $(ATTACK_MINUTES)

DAMAGE_MINUTES ?= 10
DAMAGE_SEED    ?= 0
.PHONY: damage
damage: kernels
	PYTHONPATH=server:. $(BIN)/python -m tests.damage --seed $(DAMAGE_SEED) --minutes $(DAMAGE_MINUTES)
	PYTHONPATH=server:. $(BIN)/python -m tests.damage --stopped --seed $(DAMAGE_SEED) --minutes $(DAMAGE_MINUTES)

# Where a fault would cost messages or repeat them; MUTANTS of each file, chosen by MUTANT_SEED.
MUTANT_FILES ?= $(addprefix server/jetstream_server/store/blocks/, recovery.py compaction.py \
  block_log.py block_pruning.py opening.py block_files.py enforcement.py high_water.py block_list.py) \
  $(addprefix server/jetstream_server/, store/disk/commit.py store/disk/flush.py \
  store/disk/journal.py protocol/parser.py core/sublist.py node/auth/permissions.py \
  jetstream/consumers/ack.py jetstream/consumers/progress/ack_pending.py \
  jetstream/consumers/progress/progress.py jetstream/streams/contents.py \
  jetstream/streams/dedupe.py jetstream/streams/storing/admission.py) \
  $(addprefix jetstream_spark/, source/planner.py source/stream_watch.py source/stream_source.py \
  fetch/range_fetch.py fetch/direct_fetch.py sink/ledger.py sink/recovery.py sink/stored_rows.py \
  sink/key_order.py sink/covered_rows.py)
MUTANTS ?= 6
MUTANT_SEED ?= 1

.PHONY: mutants
mutants: kernels
	$(INSTALL) cosmic-ray
	PYTHONPATH=server:. $(BIN)/python -m tests.mutants $(MUTANT_FILES) \
	  --most $(MUTANTS) --seed $(MUTANT_SEED)

DIFFERENTIAL_SEED ?= 1
DIFFERENTIAL_ROUNDS ?= 1000

differential: $(READY)-test
	$(BIN)/python -m tests.parity.differential \
	  --seed $(DIFFERENTIAL_SEED) --rounds $(DIFFERENTIAL_ROUNDS)

SPARK_VERSIONS ?=

versions: $(READY)-test
	$(BIN)/python -m tests.versions $(SPARK_VERSIONS)

pythons: $(READY)-test
	$(BIN)/python -m tests.versions --pythons

.PHONY: extras
extras: $(READY)-test
	$(BIN)/python -m tests.extras $(EXTRAS)

# In `dist`. The wheels for Linux say from which C library on they run, which auditwheel finds out.
WHEELS_PYTHONS ?=

.PHONY: wheels
wheels: $(READY)-test
	$(INSTALL) auditwheel
	$(BIN)/python -m tests.wheels $(WHEELS_PYTHONS)

# The schemas come as wheels of a hundred megabytes, which nothing else needs.
.PHONY: manifests
manifests: $(READY)-test
	$(INSTALL) check-jsonschema cibuildwheel kubernetes-validate
	$(BIN)/python -m tests.manifests

# Of an environment that has what users get and nothing else. The tool does not look up a version
# that is said in the code, so the project's file has it filled in.
SBOM         := build/sbom/jetstream-spark.cdx.json
SBOM_VERSION := from importlib.metadata import version; print(version("jetstream-spark"))

.PHONY: sbom
sbom: $(READY)-test
	@rm -rf build/sbom && $(PYTHON) -m venv --without-pip build/sbom/environment
	$(BIN)/python -m pip --python build/sbom/environment/bin/python install --quiet \
	  --disable-pip-version-check ./server .
	$(PYTHON) -m venv build/sbom/tool
	build/sbom/tool/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom
	version=$$(build/sbom/environment/bin/python -c '$(SBOM_VERSION)') && \
	  sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml >build/sbom/pyproject.toml
	build/sbom/tool/bin/cyclonedx-py environment build/sbom/environment/bin/python \
	  --pyproject build/sbom/pyproject.toml --output-format JSON --output-file $(SBOM)
	$(BIN)/python -m tests.sbom $(SBOM)

clean:
	rm -rf $(VENV) .venv-versions .demo build server/build dist *.egg-info server/*.egg-info spark-warehouse metastore_db derby.log
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find server jetstream_spark -path '*/kernels/*' \( -name 'fast.c' -o -name 'fast.*.so' \) -delete
