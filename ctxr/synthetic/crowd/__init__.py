"""Simulated workers, with which a whole study can be rehearsed before anybody is paid.

They know the drawn world's truth and differ in care, so what the aggregation must find is known: who is a spammer, how
accurate the crowd is, how much it agrees.
"""
