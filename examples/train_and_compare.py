"""Train two models on the dataset of the project in work/, and compare them."""

import ctxr

# ctxr-tiny knows drawn scenes only: leave out both changes to train as published, on CLIP
changes = ["encoder=ctxr-tiny", "epochs=2"]
for recipe in ("clip-none", "clip-batch"):
    trained = ctxr.train(recipe=recipe, set=changes, progress=True)
    print(f"{trained.run}: {trained.queries}, valid {trained.valid}, test {trained.test}")

compared = ctxr.eval(["clip-none", "clip-batch"], compare=True)
for name, table in compared.tables.items():
    if name.endswith(("/accuracy", "/differences")):
        print(table)

print(f"open {ctxr.report().place}")
