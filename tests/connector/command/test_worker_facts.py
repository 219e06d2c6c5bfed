"""What a process says of itself, also one without the connector."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
from pyspark import cloudpickle

import jetstream_spark
from jetstream_spark.command import worker_facts


def test_a_process_with_everything(genuine):
    facts = worker_facts.facts({"servers": genuine.url})
    assert facts["connector"] == jetstream_spark.__version__
    assert set(facts["kernels"]) == set(jetstream_spark.__version_info__["kernels"])
    assert (facts["connected"], facts["error"]) == (True, None)


def test_a_process_that_reaches_no_server():
    facts = worker_facts.facts({"servers": "127.0.0.1:1"})
    assert facts["connected"] is False
    assert facts["error"][0] == "CONNECTION_FAILED"


def test_it_travels_as_a_value_to_where_the_connector_is_missing():
    cloudpickle.register_pickle_by_value(worker_facts)
    try:
        sent = cloudpickle.dumps(worker_facts.facts)
    finally:
        cloudpickle.unregister_pickle_by_value(worker_facts)
    program = (
        "import json, pickle, sys\n"
        "sys.modules['jetstream_spark'] = None\n"
        "import pyspark\n"
        "print(json.dumps(pickle.loads(sys.stdin.buffer.read())({'servers': 'a:1'})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=sent, capture_output=True, check=True
    )
    facts = json.loads(done.stdout)
    assert facts["connector"] is None
    assert facts["error"][0] == "CONNECTOR_MISSING"
    assert facts["python"].startswith("3.")


def test_a_partition_says_it_once():
    rows = pa.RecordBatch.from_pydict({"id": [1, 2]})
    [batch] = worker_facts.FactsLook({})(iter([rows, rows]))
    assert json.loads(batch.to_pydict()["facts"][0])["connected"] is None
