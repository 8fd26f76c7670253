"""The store of annotation work in SQLite or PostgreSQL: units, leases, answers, dialogues.

Each submission is one transaction, on disk before it is acknowledged. Times are aware UTC datetimes given by the caller.
"""
