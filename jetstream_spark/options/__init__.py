"""What users say: the options of `format(\"jetstream\")`, read once, all mistakes told."""
