"""The photos that PhotoChat asks people to talk about, by labels of Open Images (section 3.1; the appendix has a table of them)."""

from collections.abc import Iterable

_LABELS = {
    "people": "Woman, Man, Girl, Boy, Human body, Face",
    "food": "Bagel, Baked goods, Beer, Bread, Burrito, Cake, Candy, Cheese, Cocktail, Coffee, Cookie, Croissant, Dessert, Doughnut, Drink,"
    " Fast food, French fries, Guacamole, Hamburger, Hot dog, Ice cream, Juice, Milk, Pancake, Pasta, Pizza, Popcorn, Salad, Sandwich,"
    " Seafood, Snack, Taco, Tart, Tea, Waffle, Wine",
    "animals": "Animal",
    "products": "Alarm clock, Backpack, Banjo, Bed, Belt, Bicycle, Blender, Calculator, Camera, Computer keyboard, Computer mouse,"
    " Curtain, Dress, Earrings, Fashion accessory, Food processor, Guitar, Hair dryer, Hair spray, Harmonica, High heels, Humidifier,"
    " Jacket, Jeans, Jug, Mixing bowl, Necklace, Nightstand, Oboe, Oven, Paper cutter, Pencil case, Perfume, Personal care, Pillow,"
    " Pizza cutter, Pressure cooker, Printer, Refrigerator, Skateboard, Slow cooker, Teapot, Teddy bear, Vase, Wall clock",
}

THEMES = {label: theme for theme, labels in _LABELS.items() for label in labels.split(", ")}
"""The theme of each label: 88, since the 89 of the paper count Blender twice."""


def themes_of(labels: Iterable[str]) -> tuple[str, ...]:
    """The themes that labels belong to, in the order of the paper: people, food, animals, products.

    >>> themes_of(["Tea", "Plate", "Man"])
    ('people', 'food')
    """
    found = {THEMES.get(label) for label in labels}
    return tuple(theme for theme in _LABELS if theme in found)
