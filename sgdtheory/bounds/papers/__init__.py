"""Published bounds, a paper a file."""
