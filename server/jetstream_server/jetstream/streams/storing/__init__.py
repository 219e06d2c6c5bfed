"""Whether a message is to be stored, what is answered, and the storing."""
