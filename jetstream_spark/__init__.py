"""The Spark connector for NATS JetStream: `format("jetstream")`, batch and streaming.

Importing the package pulls in nothing but the standard library, so that it is safe in every
process that Spark starts. The data source itself is `jetstream_spark.source.JetStreamDataSource`.
"""

__version__ = "0.1.0"
