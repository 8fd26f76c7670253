"""Crowdsourcing platforms. Each exports forms in its own format and parses its files back into answers.

A backend does not depend on the task: it gets a form and returns values by the names of its fields, with image ids, times in
UTC, and pseudonyms of workers.
"""
