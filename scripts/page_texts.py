"""`python -m scripts.page_texts FILE.po` gives a file of translations the texts of the pages that workers see.

What is translated already stays, what is new has an empty translation, and what is no longer shown goes. A new file has the code of
its language as its name: `fr.po`.
"""

import sys
from io import BytesIO
from pathlib import Path

from babel import Locale
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

import ctxr

METHODS = [("**.py", "python"), ("**/templates/**.html", "jinja2")]
KEYWORDS = {"_": None, "N_": None, "ngettext": (1, 2)}


def marked_texts() -> Catalog:
    """Every text that the code and the templates mark, with the files where it stands."""
    catalog = Catalog()
    for file, line, text, *_ in extract_from_dir(Path(ctxr.__file__).parent, METHODS, keywords=KEYWORDS):
        catalog.add(text, locations=[(f"ctxr/{file}", line)])
    return catalog


def main(target: Path) -> None:
    """Write a file of translations, or bring it up to date."""
    locale = Locale.parse(target.stem.replace("_", "-"), sep="-")
    new = Catalog(locale, header_comment=f"# {locale.english_name} texts of ctxr.", project="ctxr", fuzzy=False)
    old = read_po(BytesIO(target.read_bytes()), locale) if target.exists() else new
    old.update(marked_texts(), no_fuzzy_matching=True, update_creation_date=False)
    old.obsolete.clear()
    with target.open("wb") as file:
        write_po(file, old, sort_output=True, width=120, include_lineno=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
