"""What users say: the options of `format(\"jetstream\")`, read once, with all mistakes reported."""
