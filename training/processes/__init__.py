"""One process per GPU: started, watched, and ended together."""
