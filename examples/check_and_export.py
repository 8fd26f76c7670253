"""Check the dataset of the project in work/ for shortcuts, and export it as ImageCoDe was released."""

import sys
import warnings

import ctxr

warnings.simplefilter("always", ctxr.CtxrWarning)

found = ctxr.shortcuts()
for verdict in found.verdicts:
    print(f"{verdict.rule} on {verdict.part}: {'a shortcut' if verdict.flagged else 'no better than chance'}")

try:
    exported = ctxr.export(to="imagecode")
except ctxr.CtxrError as error:
    sys.exit(f"{error}: {error.hint}")

before, after = ctxr.load("work"), ctxr.load(exported)
print(f"{before}\n{after}")
lost = {one.text for one in before} - {one.text for one in after}
print(f"{len(lost)} descriptions are not in {exported.place}")
