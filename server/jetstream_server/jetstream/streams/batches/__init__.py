"""Messages that are published together: atomic batches and fast ones."""
