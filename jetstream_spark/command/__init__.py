"""`jetstream-spark`, the command: looks at queries, checkpoints and servers, and changes
positions."""
