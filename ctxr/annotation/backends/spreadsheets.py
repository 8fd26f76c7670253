"""CSV files that people open in a spreadsheet: no cell of ours runs as a formula, and a file cut short is known as such."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape, unescape
from pathlib import Path

from ctxr.data.readers.text_files import read_utf8
from ctxr.errors import DataError

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NEUTRAL = re.compile(r"'+[=+\-@\t\r]")


def neutral(cell: str) -> str:
    """A cell that a spreadsheet shows as text, whatever it begins with; `restored` is the inverse.

    >>> neutral("=1+1"), neutral("plain"), restored(neutral("'=1"))
    ("'=1+1", 'plain', "'=1")
    """
    return f"'{cell}" if cell.startswith(_FORMULA) or _NEUTRAL.match(cell) else cell


def restored(cell: str) -> str:
    """What a neutral cell said before."""
    return cell[1:] if _NEUTRAL.match(cell) else cell


def markup(text: str) -> str:
    """A text for a cell that a page shows as markup: escaped, lines parted by <br>, no variable of a layout, and no formula in a
    spreadsheet.

    >>> markup("=a < b")
    '&#61;a &lt; b'
    """
    safe = escape(text).replace("\n", "<br>").replace("${", "&#36;{")
    return f"&#{ord(safe[0])};{safe[1:]}" if safe.startswith(_FORMULA) else safe


def shown(cell: str) -> str:
    """What a page shows for a cell of `markup`, without line ends."""
    return " ".join(unescape(cell.replace("<br>", "\n")).split())


def write_csv(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> bytes:
    """A CSV file with a header, every cell quoted, lines ending in a line feed."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, columns, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def read_csv(path: Path) -> tuple[list[str], dict[int, dict[str, str]]]:
    """Header, and rows by the line of the file on which each begins, from 1. Raises UsageError for a file that is not there,
    DataError naming file:line for one that is cut short, is not UTF-8, or has a row of another length.
    """
    text = read_utf8(path, "name the CSV that was downloaded")
    _refuse_other_formats(path, text)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: dict[int, dict[str, str]] = {}
    header: list[str] = []
    line = 1
    try:
        header = next(reader, [])
        line = reader.line_num + 1
        for cells in reader:
            if len(cells) != len(header):
                raise DataError(
                    f"{path}:{line}: the row has {len(cells)} cells, the header {len(header)}",
                    hint="the file was cut short or edited: download it again",
                )
            rows[line] = dict(zip(header, cells, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{line}: {error}", hint="the file was cut short or edited: download it again"
        ) from error
    if not header:
        raise DataError(f"{path} is empty", hint="download it again")
    return header, rows


def _refuse_other_formats(path: Path, text: str) -> None:
    first = text.lstrip().partition("\n")[0]
    if first.startswith(("[", "{")):
        raise DataError(
            f"{path} is JSON and no CSV", hint="say where it is from: --from label-studio, prolific or mturk"
        )
    for sign, name in ((";", "semicolons"), ("\t", "tabs")):
        if first.count(sign) > first.count(","):
            raise DataError(
                f"{path} has {name} between its cells, not commas: a spreadsheet saved it",
                hint="import the file as it was downloaded, without saving it from a spreadsheet",
            )
