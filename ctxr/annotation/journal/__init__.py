"""The store of units, leases, answers and dialogues, in SQLite or PostgreSQL; each submission is one transaction."""
