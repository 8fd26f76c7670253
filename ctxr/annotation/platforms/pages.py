"""A form as one self-contained HTML page that works without its script, and the values it posts."""

from collections.abc import Mapping
from xml.etree.ElementTree import Element, SubElement, tostring

from ctxr.annotation.forms import Choice, Form, Pick, PictureGallery, Talk, Write
from ctxr.annotation.platforms.sheets import passage_text
from ctxr.errors import UsageError

TICKED = "yes"
"""What a ticked box sends; it is named `field.value`, because platforms join boxes of one name in ways of their own."""

_STYLE = """
:root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}
body{max-width:80rem;margin:0 auto;padding:1rem}
.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(18rem,100%),1fr));gap:.75rem;border:0;padding:0}
figure{margin:0;padding:.25rem;border:3px solid transparent;border-radius:.5rem}
figure img{width:100%;height:auto;display:block}
figure:has(input:checked),.marked{border-color:#1b66c9}
.passage{white-space:pre-line;font-size:1.15rem;max-width:60ch}
.note{opacity:.8;font-size:.9rem}
label{display:block;padding:.25rem 0}
fieldset{border:1px solid #8888;border-radius:.5rem;margin:1rem 0}
textarea{width:100%;min-height:6rem;font:inherit;box-sizing:border-box}
button{font:inherit;padding:.5rem 1.5rem}
:focus-visible{outline:3px solid #1b66c9;outline-offset:2px}
"""

_SCRIPT = """
for (const group of document.querySelectorAll('fieldset[data-one-of]')) {
  const boxes = [...group.querySelectorAll('input')];
  const check = () => boxes[0].setCustomValidity(boxes.some(b => b.checked) ? '' : group.dataset.oneOf);
  boxes.forEach(b => b.addEventListener('change', check));
  check();
}
"""


def page(
    form: Form, addresses: Mapping[str, str], hidden: Mapping[str, str], attributes: Mapping[str, str], script: str = ""
) -> str:
    """The whole page. `addresses` says where each picture of the form is; `hidden` is sent along; `attributes` are those of
    the form element; `script` is run at the end.
    """
    root = Element("html", lang="en")
    head = SubElement(root, "head")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    SubElement(head, "title").text = form.title
    SubElement(head, "style").text = _STYLE
    body = SubElement(root, "body")
    fields = SubElement(body, "form", dict(attributes))
    for name, value in hidden.items():
        SubElement(fields, "input", type="hidden", name=name, id=name, value=value)
    _content(fields, form, addresses)
    SubElement(fields, "button", type="submit", id="submitButton").text = "Submit"
    SubElement(body, "script").text = _SCRIPT + script
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html")


def _content(parent: Element, form: Form, addresses: Mapping[str, str]) -> None:
    SubElement(parent, "h1").text = form.title
    for sentence in form.instruction:
        SubElement(parent, "p").text = sentence
    for passage in form.passages:
        SubElement(parent, "h2").text = passage.title
        SubElement(parent, "p", {"class": "passage"}).text = passage_text(passage)
    picks = [field for field in form.fields if isinstance(field, Pick)]
    if form.gallery is not None:
        _gallery(parent, form.gallery, addresses, picks[0] if picks else None)
    for field in form.fields:
        if isinstance(field, Talk):
            raise UsageError("a talk cannot be a page of a platform", hint="--backend local")
        if isinstance(field, Choice):
            _choice(parent, field)
        elif isinstance(field, Write):
            _write(parent, field)


def _gallery(body: Element, gallery: PictureGallery, addresses: Mapping[str, str], pick: Pick | None) -> None:
    group = SubElement(body, "fieldset", {"class": "gallery"})
    if pick is not None:
        SubElement(group, "legend").text = pick.legend
    for picture in gallery.pictures:
        figure = SubElement(group, "figure", {"class": "marked"} if picture.marked else {}, id=f"image-{picture.place}")
        name = f"Image {picture.place}" + (", the marked one" if picture.marked else "")
        caption = SubElement(figure, "label" if pick else "figcaption")
        if pick is not None:
            radio = SubElement(caption, "input", type="radio", name=pick.name, value=picture.image)
            radio.set("required", "required")
        image = SubElement(caption, "img", src=addresses[picture.image], alt=name)
        image.tail = name


def _choice(body: Element, field: Choice) -> None:
    needed = field.several and not field.optional
    group = SubElement(body, "fieldset", {"data-one-of": "Please tick at least one."} if needed else {})
    SubElement(group, "legend").text = field.legend
    for option in field.options:
        label = SubElement(group, "label")
        if field.several:
            box = SubElement(label, "input", type="checkbox", name=f"{field.name}.{option.value}", value=TICKED)
        else:
            box = SubElement(label, "input", type="radio", name=field.name, value=option.value)
            if not field.optional:
                box.set("required", "required")
        box.tail = f" {option.label}"
        if option.note:
            SubElement(label, "span", {"class": "note"}).text = f" ({option.note})"


def _write(body: Element, field: Write) -> None:
    label = SubElement(body, "label")
    label.text = field.legend
    if field.note:
        SubElement(label, "span", {"class": "note"}).text = f" {field.note}"
    area = SubElement(label, "textarea", name=field.name, maxlength=str(field.most_characters), rows="4")
    if not field.optional:
        area.set("required", "required")


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
