"""The words of the toy world: what people call its shapes, colours, sizes, textures, faces, backdrops and places."""

from ctxr.synthetic.world.scenes import COLOURS

SHAPE_NOUNS: dict[str, tuple[tuple[str, str], ...]] = {
    "circle": (("circle", "circles"), ("disc", "discs"), ("round shape", "round shapes")),
    "square": (("square", "squares"), ("box", "boxes"), ("block", "blocks")),
    "triangle": (("triangle", "triangles"),),
    "star": (("star", "stars"), ("five-pointed star", "five-pointed stars")),
    "heart": (("heart", "hearts"), ("heart shape", "heart shapes")),
    "diamond": (("diamond", "diamonds"), ("rhombus", "rhombuses")),
    "ring": (("ring", "rings"), ("hoop", "hoops")),
    "cross": (("cross", "crosses"), ("plus sign", "plus signs")),
    "crescent": (("crescent", "crescents"), ("half moon", "half moons")),
    "hexagon": (("hexagon", "hexagons"), ("six-sided shape", "six-sided shapes")),
    "oval": (("oval", "ovals"), ("ellipse", "ellipses")),
    "arrow": (("arrow", "arrows"),),
    "flower": (("flower", "flowers"), ("blossom", "blossoms")),
    "fish": (("fish", "fish"),),
    "house": (("house", "houses"), ("hut", "huts")),
    "tree": (("tree", "trees"),),
    "boat": (("boat", "boats"), ("sailboat", "sailboats"), ("ship", "ships")),
    "car": (("car", "cars"), ("automobile", "automobiles")),
    "mushroom": (("mushroom", "mushrooms"), ("toadstool", "toadstools")),
    "cloud": (("cloud", "clouds"),),
    "drop": (("drop", "drops"), ("droplet", "droplets"), ("teardrop", "teardrops")),
    "leaf": (("leaf", "leaves"),),
    "umbrella": (("umbrella", "umbrellas"), ("parasol", "parasols")),
    "balloon": (("balloon", "balloons"),),
    "butterfly": (("butterfly", "butterflies"), ("moth", "moths")),
    "cup": (("cup", "cups"), ("mug", "mugs")),
}
ANY_NOUNS = (("shape", "shapes"), ("figure", "figures"), ("object", "objects"), ("thing", "things"))
COLOUR_WORDS: dict[str, tuple[str, ...]] = {colour: (colour,) for colour in COLOURS} | {
    "turquoise": ("turquoise", "teal"),
    "purple": ("purple", "violet"),
    "gray": ("gray", "grey"),
}
SIZE_WORDS: dict[str, tuple[str, ...]] = {
    "small": ("small", "little", "tiny"),
    "medium": ("medium-sized", "mid-sized"),
    "large": ("large", "big", "huge"),
}
TEXTURE_WORDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "plain": (("plain",), ("without a pattern",)),
    "striped": (("striped",), ("with stripes", "covered in stripes")),
    "dotted": (("dotted", "spotted"), ("with dots", "with spots", "with polka dots")),
    "checkered": (("checkered", "checked"), ("with a checkered pattern", "with checks")),
}
"""Texture to adjectives and to what may follow the noun instead."""
FACE_WORDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "smiling": (("smiling", "happy"), ("with a smile", "with a happy face", "with a smiling face")),
    "sad": (("sad", "unhappy"), ("with a sad face", "that looks sad")),
    "sleeping": (("sleeping", "sleepy"), ("with closed eyes", "with its eyes closed")),
}
BACKDROP_PHRASES: dict[str, tuple[str, ...]] = {
    "bricks": ("in front of a brick wall", "against red bricks", "on a wall of bricks"),
    "photographer": (
        "in front of a man with a camera", "before a photographer", "over a black and white photo of a cameraman",
    ),
    "cat": ("in front of a cat", "over a photo of a cat", "with a cat in the background"),
    "coffee": ("in front of a cup of coffee", "over a table with coffee", "with coffee in the background"),
    "grass": ("on the grass", "on a green lawn", "against grass"),
    "gravel": ("on gravel", "on small stones", "against a gravel path"),
    "rocket": ("in front of a rocket", "with a rocket in the background", "at a launch pad in the evening"),
    "stars": ("in front of stars and galaxies", "in outer space", "against a starry sky"),
    "astronaut": ("in front of an astronaut", "with an astronaut in the background", "over a photo of an astronaut"),
    "sky": ("in the blue sky", "against a cloudy sky", "in front of a bright sky"),
    "sea": ("on the water", "at sea", "against blue water"),
    "sand": ("on the sand", "on a sandy beach", "against sand"),
    "snow": ("in the snow", "on white snow", "against a snowy ground"),
    "sunset": ("at sunset", "against an orange evening sky", "in front of a sunset"),
    "leaves": ("in front of green leaves", "against a hedge", "in the bushes"),
    "wood": ("on a wooden board", "against wood", "on a wooden floor"),
    "stone": ("on gray stone", "against a rock wall", "in front of a stone wall"),
    "night": ("at night", "in the dark", "against a dark night sky"),
}  # fmt: skip
BACKDROP_NOUNS: dict[str, tuple[str, ...]] = {
    "bricks": ("a brick wall", "a wall of red bricks"),
    "photographer": ("a photographer", "a man with a camera"),
    "cat": ("a cat", "the face of a cat"),
    "coffee": ("a cup of coffee", "a coffee cup on a table"),
    "grass": ("grass", "a green lawn"),
    "gravel": ("gravel", "a ground of small stones"),
    "rocket": ("a rocket", "a launch pad with a rocket"),
    "stars": ("outer space", "a field of stars and galaxies"),
    "astronaut": ("an astronaut", "a woman in a space suit"),
    "sky": ("the blue sky", "a sky with clouds"),
    "sea": ("the sea", "blue water"),
    "sand": ("sand", "a sandy beach"),
    "snow": ("snow", "white snow"),
    "sunset": ("a sunset", "an orange evening sky"),
    "leaves": ("a green hedge", "dense leaves"),
    "wood": ("a wooden board", "wood"),
    "stone": ("gray stone", "a rock wall"),
    "night": ("a dark night sky", "the night sky"),
}
PLACE_PHRASES: dict[str, tuple[str, ...]] = {
    "left": ("on the left", "on the left side", "at the left of the picture", "on the left-hand side"),
    "right": ("on the right", "on the right side", "at the right of the picture", "on the right-hand side"),
    "top": ("at the top", "near the top", "in the upper part of the picture"),
    "bottom": ("at the bottom", "near the bottom", "in the lower part of the picture"),
    "middle": ("in the middle", "in the center", "at the center of the picture"),
    "top left": ("in the top left corner", "in the upper left", "at the top left"),
    "top right": ("in the top right corner", "in the upper right", "at the top right"),
    "bottom left": ("in the bottom left corner", "in the lower left", "at the bottom left"),
    "bottom right": ("in the bottom right corner", "in the lower right", "at the bottom right"),
}
SIDE_PHRASES: dict[str, tuple[str, ...]] = {
    "left": ("to the left of", "left of", "on the left of", "on the left side of"),
    "right": ("to the right of", "right of", "on the right of", "on the right side of"),
    "above": ("above", "higher than", "over the top of", "further up than"),
    "below": ("below", "lower than", "underneath", "further down than"),
}
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
