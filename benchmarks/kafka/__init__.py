"""The connector beside Spark's own Kafka connector: `python -m benchmarks.kafka`."""
