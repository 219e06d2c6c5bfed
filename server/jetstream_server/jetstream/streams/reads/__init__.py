"""What a stream is asked: single messages, its state, its subjects."""
