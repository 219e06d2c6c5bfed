"""What leaves a stream, when and why."""
