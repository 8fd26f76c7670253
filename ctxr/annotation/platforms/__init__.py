"""Platforms that bring tasks to people. Each turns forms into its own grammar and its files back into answers.

A backend never knows the task: it sees a form, and returns values by the names of the form's fields. Pictures come back as
image ids, times in UTC, people as pseudonyms.
"""
