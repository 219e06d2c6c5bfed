"""What a consumer has delivered, what of that is acknowledged, and what comes next."""
