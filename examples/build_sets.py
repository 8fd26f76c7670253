"""Build image sets from the folder videos/, drop blurry images, and write a report."""

import ctxr

built = ctxr.build_sets("videos", progress=True)
print(f"{built.counts['sets']} sets by {built.encoder}, at most {built.threshold:g} apart")

filtered = ctxr.filter(brisque=0.65)
print(f"{filtered.counts['sets']} sets without blurry images, in {filtered.place}")

for source in filtered.failures:
    print(f"left out: {source['path']}, {source['message']}")

for one in ctxr.load(filtered)[:3]:  # sets that nobody described yet
    print(one.id, one.split, one.images[0].size)

print(f"open {ctxr.report().place}")
