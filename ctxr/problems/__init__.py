"""What models are asked. A problem has a question (examples, columns, tables, its section of the report; no torch) and a learner
(training and scoring).

Training, evaluation and report name no problem: they look it up in the registry. No problem imports another.
"""
