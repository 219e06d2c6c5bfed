"""The NATS client of the connector: knows the wire and the JetStream API, nothing of Spark."""
