"""What streams and consumers are asked to be, within what limits, and whether they may be that."""
