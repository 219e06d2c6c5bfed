"""What servers said, as text that people read."""
