"""The annotation server: it serves units, stores answers, and connects two workers in a dialogue.

It depends on forms and the journal, not on tasks. All pages but the live part of a dialogue work without a script; all input
from browsers is validated here.
"""
