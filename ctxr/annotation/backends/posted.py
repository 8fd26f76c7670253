"""What a page of ours sent, as values of the form's fields, whichever way a platform spells a ticked box."""

from collections.abc import Mapping

from ctxr.annotation.backends.pages import TICKED
from ctxr.annotation.forms import Choice, Form, Write

_YES = {TICKED, "on", "true", "1", "checked"}


def values_of(form: Form, sent: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Values by field. Choices of several come as one box each (`field.value`), or joined by `|` under the field's name."""
    found: dict[str, tuple[str, ...]] = {}
    for field in form.fields:
        given = sent.get(field.name, "")
        if isinstance(field, Choice) and field.several:
            joined = set(given.split("|"))
            ticked = tuple(
                option.value
                for option in field.options
                if option.value in joined or sent.get(f"{field.name}.{option.value}", "").strip().lower() in _YES
            )
            odd = tuple(value for value in given.split("|") if value and value not in ticked)
            found[field.name] = ticked + odd
        elif isinstance(field, Write):
            found[field.name] = (given,)
        else:
            found[field.name] = (given,) if given else ()
    return found
