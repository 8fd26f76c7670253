"""Where the crowd's work is kept: units, leases, answers, talks, in SQLite or PostgreSQL.

One transaction a submission, on the disk before it is acknowledged. Times are aware UTC datetimes given by the caller.
"""
