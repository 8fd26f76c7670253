"""The pages of the crowd: a server that hands out units, takes answers, and lets two people talk.

It knows forms and the journal, never a task. Everything but the live part of a talk works without a script; whatever comes
from a browser is checked here.
"""
