"""What is asked of a server, one family of rows a module; each runs in the load process."""
