"""Messages that ask to be published later, or again and again."""
