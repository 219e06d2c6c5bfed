"""The connector with each version of PySpark that it is said to work with."""
