"""The language of a page: the texts of our pages are English in the code, and other languages are files of translations."""


def _(text: str) -> str:
    """The text in the language of the page that is being made."""
    return text


def N_(text: str) -> str:
    """The text as it is: marked, so that it has a translation, and translated by `_` where it is shown."""
    return text
