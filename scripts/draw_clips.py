"""Draw clips whose content is known, for docs/tutorial.md: `python -m scripts.draw_clips FOLDER`."""

import sys
from pathlib import Path

from ctxr.synthetic.world.footage import World, WorldConfig, write_world
from scripts.ending import exit_code

CLIPS = WorldConfig(seed=7, videos=6, seconds=6.0, albums=0)


def draw_clips(folder: Path) -> World:
    """The clips in `folder/videos`, with what each of their frames shows; drawn unless they are there."""
    return write_world(folder, CLIPS)


def main() -> None:
    """Draw the clips."""
    folder = Path(sys.argv[1])
    draw_clips(folder)
    print(f"{CLIPS.videos} clips of {CLIPS.seconds:g} seconds are in {folder / 'videos'}")


if __name__ == "__main__":
    sys.exit(exit_code(main))
