"""The pages of the crowd: a server that hands out units, takes answers, and lets two people talk.

It knows forms and the journal, never a task. Everything but the live part of a talk works without a script; whatever comes
from a browser is checked here.
"""

from ctxr.annotation.web.app import make_app
from ctxr.annotation.web.signing import Signer
from ctxr.annotation.web.site import Doors, Site, Study
from ctxr.annotation.web.talk import Bell

__all__ = ["Bell", "Doors", "Signer", "Site", "Study", "make_app"]
