"""The pages of the console: thin, each asks and shows."""
