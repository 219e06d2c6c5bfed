"""What operators, accounts and users may claim in their JWTs."""
