"""The chain of verbs, in groups that meet on disk: no group imports another."""
