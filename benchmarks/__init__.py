"""Side-by-side measurements: our server, the genuine one, and the limits of this machine."""
