"""Mechanical Turk: a unit as a self-contained HTMLQuestion, and the API client; every call can be repeated.

Amazon accepts no new requesters since July 2026; existing accounts still work, and the published protocol ran here.
One HIT is one unit, because workers are distinct only within a HIT. Its votes are its assignments, so all workers see the same
image order.

A request token is valid for 24 hours, so launched HITs are also looked up by their annotation before a new one is created.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, SubElement, tostring

import msgspec
from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeTree

from ctxr.annotation.config import ExportTasks, listed
from ctxr.annotation.forms import Choice, Form, Pick, PictureGallery, Talk, Write, without_blanks
from ctxr.annotation.journal.database import micros, stamp
from ctxr.annotation.platforms.arrivals import Arrivals, read_lines
from ctxr.annotation.platforms.sheets import Sheet, first_raters, passage_text, sheet
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Unit
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.store.append_only import append, read_appended
from ctxr.store.records import Record, SplitName
from ctxr.store.tables import UNREADABLE

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
const sent = new URLSearchParams(location.search), form = document.getElementById('mturk_form');
const assignment = sent.get('assignmentId') || '';
const host = sent.get('turkSubmitTo') || '';
form.action = (/^https:\\/\\/[a-z.-]+\\.mturk\\.com$/.test(host) ? host : 'https://www.mturk.com') + '/mturk/externalSubmit';
document.getElementById('assignmentId').value = assignment;
if (!assignment || assignment === 'ASSIGNMENT_ID_NOT_AVAILABLE') {
  const button = document.getElementById('submitButton');
  button.disabled = true;
  button.textContent = 'Accept the HIT to answer';
}
"""


def page(form: Form, addresses: Mapping[str, str], hidden: Mapping[str, str], attributes: Mapping[str, str]) -> str:
    """The whole page. `addresses` says where each picture of the form is; `hidden` is sent along; `attributes` are those of
    the form element.
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
    SubElement(fields, "h1").text = form.title
    for sentence in form.instruction:
        SubElement(fields, "p").text = sentence
    for passage in form.passages:
        SubElement(fields, "h2").text = passage.title
        SubElement(fields, "p", {"class": "passage"}).text = passage_text(passage)
    if form.gallery is not None:
        pick = next((field for field in form.fields if isinstance(field, Pick)), None)
        _gallery(fields, form.gallery, addresses, pick)
    for field in form.fields:
        if isinstance(field, Talk):
            raise UsageError("a talk cannot be a page of a platform", hint="--backend local")
        if isinstance(field, Choice):
            _choice(fields, field)
        elif isinstance(field, Write):
            _write(fields, field)
    SubElement(fields, "button", type="submit", id="submitButton").text = "Submit"
    SubElement(body, "script").text = _SCRIPT
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html")


def _gallery(body: Element, gallery: PictureGallery, addresses: Mapping[str, str], pick: Pick | None) -> None:
    group = SubElement(body, "fieldset", {"class": "gallery"})
    if pick is not None:
        SubElement(group, "legend").text = pick.legend
    for picture in gallery.pictures:
        figure = SubElement(group, "figure", {"class": "marked"} if picture.marked else {}, id=f"image-{picture.place}")
        name = f"Image {picture.place}" + (", the marked one" if picture.marked else "")
        caption = SubElement(figure, "label" if pick else "figcaption")
        if pick is not None:
            SubElement(caption, "input", type="radio", name=pick.name, value=picture.image, required="required")
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
            required = {} if field.optional else {"required": "required"}
            box = SubElement(label, "input", {"type": "radio", "name": field.name, "value": option.value, **required})
        box.tail = f" {option.label}"
        if option.note:
            SubElement(label, "span", {"class": "note"}).text = f" ({option.note})"


def _write(body: Element, field: Write) -> None:
    label = SubElement(body, "label")
    label.text = field.legend
    if field.note:
        SubElement(label, "span", {"class": "note"}).text = f" {field.note}"
    required = {} if field.optional else {"required": "required"}
    most = str(field.most_characters)
    SubElement(label, "textarea", {"name": field.name, "maxlength": most, "rows": "4", **required})


_YES = {TICKED, "on", "true", "1", "checked"}


def values_of(form: Form, sent: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Values by field. Choices of several come as one box each (`field.value`), or joined by `|` under the field's name."""
    values: dict[str, tuple[str, ...]] = {}
    for field in form.fields:
        value = sent.get(field.name, "")
        if isinstance(field, Choice) and field.several:
            joined = value.split("|")
            ticked = tuple(
                option.value
                for option in field.options
                if option.value in joined or sent.get(f"{field.name}.{option.value}", "").strip().lower() in _YES
            )
            values[field.name] = ticked + tuple(part for part in joined if part and part not in ticked)
        else:
            values[field.name] = (value,) if value or isinstance(field, Write) else ()
    return without_blanks(form, values)


PLATFORM = "mturk"

MOST_BYTES = 65_535
"""Of a question, as XML."""

_SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2011-11-11/HTMLQuestion.xsd"

APPROVED = "000000000000000000L0"
"""System qualification: percentage of assignments approved."""

LOCALE = "00000000000000000071"
"""System qualification: country of the worker."""


def pool_name(split: SplitName | None) -> str:
    """The pool of workers that a split belongs to: `train`, or `eval`."""
    return "train" if split == "train" else "eval"


def token(key: bytes, unit: str, assignments: int) -> str:
    """The request token of a project, unit and number of assignments, which identifies a repeated request."""
    return "ctxr-" + hmac.new(key, f"token\0{unit}\0{assignments}".encode(), hashlib.sha256).hexdigest()[:56]


def project(key: bytes) -> str:
    """An anonymous name of the project on a platform, 12 hex digits."""
    return hmac.new(key, b"project", hashlib.sha256).hexdigest()[:12]


def annotation(key: bytes, unit: str) -> str:
    """The requester's annotation of a HIT, by which it is found after its token has expired."""
    return f"ctxr:{project(key)}:{unit}"


def question(filled: Sheet, addresses: Mapping[str, str]) -> str:
    """The HTMLQuestion of a sheet as XML. Raises DataError for one that is larger than Mechanical Turk takes."""
    hidden = {"assignmentId": "", "ctxr_unit": filled.unit.id, "ctxr_slot": str(filled.slot), "ctxr_seal": filled.seal}
    attributes = {"name": "mturk_form", "id": "mturk_form", "method": "post", "action": ""}
    # a CDATA section cannot contain its own end, which is divided between two
    content = page(filled.form, addresses, hidden, attributes).replace("]]>", "]]]]><![CDATA[>")
    written = (
        f'<HTMLQuestion xmlns="{_SCHEMA}"><HTMLContent><![CDATA[{content}]]></HTMLContent>'
        "<FrameHeight>0</FrameHeight></HTMLQuestion>"
    )
    if (size := len(written.encode())) > MOST_BYTES:
        raise DataError(
            f"unit {filled.unit.id!r} needs a question of {size} bytes, more than the {MOST_BYTES} that Mechanical Turk accepts",
            hint="shorten the texts, or the address before the pictures (--image-base)",
        )
    return written


def _requirement(name: str, comparator: str, **values: Any) -> dict[str, Any]:
    guarded = {"ActionsGuarded": "DiscoverPreviewAndAccept"}
    return {"QualificationTypeId": name, "Comparator": comparator, **values, **guarded}


class Hit(msgspec.Struct, frozen=True):
    """What will be one HIT: a unit, the side it is for, and the parameters of `create_hit`."""

    unit: str
    side: str
    parameters: dict[str, Any]


def export(units: Iterable[Unit], addresses: Mapping[str, str], config: ExportTasks, key: bytes) -> dict[str, bytes]:
    """The file `payload.jsonl`, a `Hit` a line. Raises DataError for a question that is too large."""
    hits, countries = [], [{"Country": country} for country in listed(config.countries)]
    needed = [_requirement(APPROVED, "GreaterThan", IntegerValues=[config.approved])] if config.approved else []
    needed += [_requirement(LOCALE, "In", LocaleValues=countries)] if countries else []
    needed += [_requirement(name, "Exists") for name in listed(config.require)]
    needed += [_requirement(name, "DoesNotExist") for name in listed(config.exclude)]
    for unit in units:
        filled = sheet(unit, 0, config.seed)
        assignments = first_raters(unit, config)
        parameters = {
            "Title": (config.title or filled.form.title)[:128],
            "Description": " ".join(filled.form.instruction)[:2000],
            "Keywords": "image, text, description",
            "Reward": f"{config.pay() / 100:.2f}",
            "MaxAssignments": assignments,
            "AssignmentDurationInSeconds": config.minutes * 60,
            "LifetimeInSeconds": config.days * 86_400,
            "AutoApprovalDelayInSeconds": config.days * 86_400,
            "Question": question(filled, addresses),
            "RequesterAnnotation": annotation(key, unit.id),
            "UniqueRequestToken": token(key, unit.id, assignments),
            "QualificationRequirements": needed,
        }
        hits.append(Hit(unit.id, pool_name(unit.split), parameters))
    return {"payload.jsonl": b"".join(msgspec.json.encode(hit) + b"\n" for hit in hits)}


def answers(path: Path, units: Mapping[str, Unit], protocol: Protocol, key: bytes) -> Arrivals:
    """Assignments as `fetch` archived them, a line each; what a worker sent is refused by itself.

    Raises DataError naming file:row for a line that cannot be read, or a HIT of another export.
    """
    arrivals, edited = Arrivals(path, PLATFORM, key), "the file was cut short or edited: fetch the answers again"
    missing = "without a file, answers are fetched from Mechanical Turk"
    for number, row in read_lines(path, Fetched, edited, missing):
        try:
            at = stamp(micros(row.SubmitTime))
        except OverflowError as error:
            raise DataError(f"{path}:{number}: {error}", hint=edited) from error
        unit = arrivals.unit(units, row.unit, number)
        filled, worker = sheet(unit, 0, protocol.seed), arrivals.named(row.WorkerId)
        if row.AssignmentStatus == "Rejected":
            arrivals.refuse(number, unit.id, worker, "rejected", "The assignment was rejected.")
            continue
        try:
            sent = sent_values(row.Answer)
        except (ParseError, DefusedXmlException):
            arrivals.refuse(number, unit.id, worker, "unreadable", "What the page sent cannot be read.")
            continue
        if (sent.get("ctxr_unit"), sent.get("ctxr_seal")) != (unit.id, filled.seal):
            sentence = "The page was not the one that was exported: its unit, its order or its text differs."
            arrivals.refuse(number, unit.id, worker, "other_page", sentence)
            continue
        seconds, values = (row.SubmitTime - row.AcceptTime).total_seconds(), values_of(filled.form, sent)
        arrivals.take(number, Answer(unit.id, worker, values, filled.order, 0, at, seconds, PLATFORM))
    return arrivals


class Fetched(msgspec.Struct, frozen=True):
    """An assignment as it is archived, in the words of the API; `unit` is from the annotation of its HIT."""

    unit: str
    HITId: str
    AssignmentId: str
    WorkerId: str
    AssignmentStatus: str
    AcceptTime: datetime
    SubmitTime: datetime
    Answer: str

    def __post_init__(self) -> None:
        """Times without a zone are UTC."""
        for name in ("AcceptTime", "SubmitTime"):
            time = getattr(self, name)
            if time.tzinfo is None:
                msgspec.structs.force_setattr(self, name, time.replace(tzinfo=UTC))


def sent_values(xml: str) -> dict[str, str]:
    """What a page sent, from the XML of an assignment. Raises ParseError or DefusedXmlException for XML that is none."""
    if not xml.strip():
        return {}
    sent: dict[str, str] = {}
    for answer in SafeTree.fromstring(xml):
        parts = {part.tag.rpartition("}")[2]: part.text or "" for part in answer}
        name, value = parts.get("QuestionIdentifier", ""), parts.get("FreeText", "")
        if name == "taskAnswers":
            sent |= _crowd_form(value)
        elif name:
            sent[name] = value
    return sent


def _crowd_form(text: str) -> dict[str, str]:
    """The fields of a page built with Amazon's own form elements: one JSON list."""
    try:
        (loose,) = msgspec.json.decode(text, type=tuple[dict[str, Any]])
    except UNREADABLE:
        return {}
    values = {name: str(value) for name, value in loose.items() if not isinstance(value, dict)}
    boxes = ((name, value) for name, value in loose.items() if isinstance(value, dict))
    return values | {f"{name}.{part}": TICKED for name, box in boxes for part, tick in box.items() if tick is True}


SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
LIVE = "https://mturk-requester.us-east-1.amazonaws.com"

PAGE = 100
"""Results of one call at most."""

_HIT = re.compile(r"\b[A-Z0-9]{20,64}\b")


Client = Any
"""boto3's client for `mturk`, which has no types; each of its calls takes and returns the words of the API."""


class Launched(Record, frozen=True):
    """A launched HIT. `asked`: assignments it was created with, or extended to."""

    unit: str
    hit: str
    asked: int


def connect(live: bool) -> Client:
    """A client for the sandbox, or with `live` for paid work; credentials are found by boto3 in its own places.

    Raises CtxrError where boto3 is not installed or finds no credentials.
    """
    try:
        import boto3
    except ImportError as error:
        raise CtxrError("boto3 is not installed, and Mechanical Turk needs it", hint="pip install boto3") from error
    session = boto3.session.Session()
    if session.get_credentials() is None:
        raise CtxrError(
            "there are no credentials for Amazon Web Services",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        )
    return session.client("mturk", region_name="us-east-1", endpoint_url=LIVE if live else SANDBOX)


def read_launched(path: Path) -> dict[str, Launched]:
    """The latest record of each HIT, by unit. Raises DataError naming file:line for a line that is none."""
    return {row.unit: row for row in read_appended(path, Launched)}


def launch(
    client: Client, hits: Iterable[Hit], record: Path, key: bytes, pools: Mapping[str, str]
) -> Iterator[Launched]:
    """Create the missing HITs and record each before the next. `pools`: qualification types of the workers of `train` and of
    `eval`, empty if workers may do both.

    Raises CtxrError for what Mechanical Turk refuses; what was launched is recorded, and a repeated call continues.
    """
    launched = read_launched(record)
    waiting = [hit for hit in hits if hit.unit not in launched]
    existing = _pages(client.list_hits, "HITs") if waiting else ()
    created = {hit.get("RequesterAnnotation"): hit for hit in existing}
    for hit in waiting:
        parameters, other = hit.parameters, {"train": "eval", "eval": "train"}[hit.side]
        if other in pools:  # without the workers of the other pool
            rows = [*parameters["QualificationRequirements"], _requirement(pools[other], "DoesNotExist")]
            parameters = parameters | {"QualificationRequirements": rows}
        earlier = created.get(annotation(key, hit.unit))
        name = earlier["HITId"] if earlier else _create(client, parameters)
        append(record, row := Launched(hit.unit, name, int((earlier or parameters)["MaxAssignments"])))
        yield row


def fetch(client: Client, launched: Iterable[Launched]) -> Iterator[Fetched]:
    """Every submitted assignment of the HITs, page by page."""
    names = [name for name in Fetched.__struct_fields__ if name not in ("unit", "HITId")]
    for row in launched:
        for assignment in _pages(client.list_assignments_for_hit, "Assignments", HITId=row.hit):
            fields = {"Answer": "", **assignment}
            yield Fetched(row.unit, row.hit, *(fields[name] for name in names))


def extend(
    client: Client, launched: Mapping[str, Launched], wanted: Mapping[str, int], record: Path, key: bytes
) -> list[Launched]:
    """Ask for as many assignments as each unit wants in all, where it has fewer; returns what was extended.

    The HIT itself says how many it has, so a repeated call asks for nothing twice. A HIT of fewer than ten never gets ten.
    """
    grown = []
    for unit, most in sorted(wanted.items()):
        row = launched.get(unit)
        if row is None or most <= row.asked:
            continue
        has = int(_called(client.get_hit, HITId=row.hit)["HIT"]["MaxAssignments"])
        target = min(most, 9) if has < 10 else most
        if target > has:
            _called(
                client.create_additional_assignments_for_hit,
                HITId=row.hit,
                NumberOfAdditionalAssignments=target - has,
                UniqueRequestToken=token(key, unit, target),
            )
        extended = Launched(unit, row.hit, max(target, has))
        append(record, extended)
        grown.append(extended)
    return grown


def pools_of(client: Client, key: bytes) -> dict[str, str]:
    """Qualification types of the two pools of workers, by `train` and `eval`; those that are missing are created."""
    owned = {"MustBeRequestable": False, "MustBeOwnedByCaller": True}
    rows = _pages(client.list_qualification_types, "QualificationTypes", **owned)
    types = {row["Name"]: row["QualificationTypeId"] for row in rows}
    pools = {}
    for pool in ("train", "eval"):
        name = f"ctxr-{project(key)}-{pool}"
        if name not in types:
            created = _called(
                client.create_qualification_type,
                Name=name,
                Description="Keeps the workers of the parts of a study apart.",
                QualificationTypeStatus="Active",
            )
            types[name] = created["QualificationType"]["QualificationTypeId"]
        pools[pool] = types[name]
    return pools


def join_pool(client: Client, pool: str, workers: Iterable[str]) -> None:
    """Give the qualification type `pool` to workers (platform ids), without a message to them."""
    for worker in workers:
        _called(
            client.associate_qualification_with_worker,
            QualificationTypeId=pool,
            WorkerId=worker,
            IntegerValue=1,
            SendNotification=False,
        )


def _create(client: Client, parameters: dict[str, Any]) -> str:
    try:
        return str(client.create_hit(**parameters)["HIT"]["HITId"])
    except Exception as error:
        code, message = _refusal(error)
        named = _HIT.search(message.replace(parameters["UniqueRequestToken"], ""))
        if code == "AWS.MechanicalTurk.HitAlreadyExists" and named:
            return named.group()
        raise _sentence(error) from error


def _pages(call: Any, name: str, **parameters: Any) -> Iterator[dict[str, Any]]:
    following: dict[str, str] = {}
    while True:
        answer = _called(call, MaxResults=PAGE, **parameters, **following)
        yield from answer[name]
        if not answer.get("NextToken") or not answer[name]:
            return
        following = {"NextToken": answer["NextToken"]}


def _called(call: Any, **parameters: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = call(**parameters)
    except Exception as error:
        raise _sentence(error) from error
    return answer


def _refusal(error: Exception) -> tuple[str, str]:
    """Mechanical Turk's own code and message, from an error of botocore; empty for any other error."""
    answer = getattr(error, "response", None) or {}
    message = answer.get("Message") or answer.get("Error", {}).get("Message", "")
    return str(answer.get("TurkErrorCode", "")), str(message)


def _sentence(error: Exception) -> Exception:
    """What the service or the way to it refused, as one sentence; an error of our own stays what it is."""
    if not any(base.__module__.partition(".")[0] in ("botocore", "boto3") for base in type(error).__mro__):
        return error
    code, message = _refusal(error)
    return CtxrError(
        f"Mechanical Turk refused: {message or error} {f'({code})' if code else ''}".strip(),
        hint="run the same command again: what was launched is kept",
    )
