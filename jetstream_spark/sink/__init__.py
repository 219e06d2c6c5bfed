"""Writing as Spark calls it: rows published, acknowledged, and not written twice."""
