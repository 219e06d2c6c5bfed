"""Reading as Spark calls it: where a query stands, how far it goes, how that is cut into tasks."""
