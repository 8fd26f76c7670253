"""Dawid and Skene (1979), table 1: fitness for anaesthesia of 45 patients, from 1 to 4, as judged by five anaesthetists.

Of each patient the three judgments of the first, then those of the other four. Facts, copied as data.
"""

from ctxr.metrics.votes import Votes, factorise

JUDGED = """
111 1 1 1 1   333 4 3 3 4   112 2 1 2 2   222 3 1 2 1   222 3 2 2 2   222 3 3 2 2   122 2 1 1 1   333 3 4 3 3   222 2 2 2 3
232 2 2 2 3   444 4 4 4 4   222 3 3 4 3   111 1 1 1 1   222 3 2 1 2   121 1 1 1 1   111 2 1 1 1   111 1 1 1 1   111 1 1 1 1
222 2 2 2 1   222 1 3 2 2   222 2 2 2 2   222 2 2 2 1   222 3 2 2 2   221 2 2 2 2   111 1 1 1 1   111 1 1 1 1   232 2 2 2 2
111 1 1 1 1   111 1 1 1 1   112 1 1 2 1   111 1 1 1 1   333 3 2 3 3   111 1 1 1 1   222 2 2 2 2   222 3 2 3 2   433 4 3 4 3
221 2 2 3 2   232 3 2 3 3   333 3 4 3 2   111 1 1 1 1   111 1 1 1 1   121 2 1 1 1   232 2 2 2 2   121 1 1 1 1   222 2 2 2 2
"""


def anaesthetists() -> Votes:
    """The 315 judgments, seven of each patient: the first observer's three stand as three votes of one worker."""
    patients = [patient.split() for line in JUDGED.strip().splitlines() for patient in line.split("   ")]
    rows = [
        (number, observer, int(grade))
        for number, patient in enumerate(patients, start=1)
        for observer, grades in enumerate(patient, start=1)
        for grade in grades
    ]
    (units, unit_names), (workers, worker_names), (values, labels) = (
        factorise(column) for column in zip(*rows, strict=True)
    )
    return Votes(units, workers, values, unit_names, worker_names, labels)
