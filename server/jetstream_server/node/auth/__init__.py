"""Who a client is, how that is found out, and what it may do."""
