"""The JetStream JSON API: one handler per subject, one place that makes error envelopes."""
