"""Look at the dataset of the project in work/."""

from collections import Counter
from pathlib import Path

from PIL import Image

import ctxr

benchmark = ctxr.load("work")
print(benchmark)

# where targets are, which a model could exploit
positions = Counter(one.target for one in benchmark)
print("targets by position:", sorted(positions.items(), key=str))

# descriptions with words of time, and their lengths
timed = [one for one in benchmark if {"before", "after", "then", "last"} & set(one.text.lower().split())]
lengths = sorted(len(one.text.split()) for one in benchmark)
print(f"{len(timed)} of {len(benchmark)} speak of time; the median has {lengths[len(lengths) // 2]} words")

# the first query as one picture, its target last
one = benchmark[0]
strip = Image.new("RGB", (100 * (len(one.images) + 1), 100))
for place, picture in enumerate([*one.images, one.images[one.target or 0]]):
    strip.paste(picture.resize((100, 100)), (100 * place, 0))
strip.save("query.png")
print(f"{one.text!r} is in {Path('query.png').resolve()}")
