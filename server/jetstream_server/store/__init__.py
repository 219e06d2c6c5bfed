"""Floor `store`: durable sequences of messages; knows nothing of streams or consumers."""
