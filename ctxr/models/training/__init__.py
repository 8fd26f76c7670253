"""One loop that trains every scorer."""
