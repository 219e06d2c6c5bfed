"""Floor `config`: what the operator asked for, from flags and files."""
