"""Make units of work from a dataset, and derive follow-up units from answers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ctxr.annotation.protocol import Protocol, digest, share
from ctxr.annotation.records import PUBLISHED, Answer, AnswerLimits, Purpose, TaskName, Unit
from ctxr.annotation.tasks import entail, review, task_of
from ctxr.annotation.tasks.own import OwnStudy
from ctxr.annotation.tasks.values import stable_id
from ctxr.datasets.dataset import Dataset
from ctxr.errors import DataError
from ctxr.store.records import Dialogue, ImageSet, Query, SplitName, Text
from ctxr.store.tables import grouped
from ctxr.web.language import ENGLISH, N_, PageLanguage


def _unit(task: TaskName, name: str, image_set: ImageSet, split: SplitName | None = None, **decided: Any) -> Unit:
    """A unit about an image set; it shows all images, in temporal order for a video, unless `decided` says otherwise."""
    shown: dict[str, Any] = {"images": image_set.images, "ordered": image_set.ordered}
    return Unit(name, task, image_set.id, image_set.group, split=split, **(shown | decided))


def describe_units(
    dataset: Dataset, protocol: Protocol, objects: Mapping[str, tuple[str, ...]] | None = None
) -> list[Unit]:
    """`protocol.targets` random targets of each set (section 3.2); with `objects`, hints by image, each shown alone."""
    task: TaskName = "describe" if objects is None else "dialogue"
    limits = AnswerLimits(protocol.least_words, protocol.sameness, protocol.turns_before_share, protocol.language)
    units = []
    for image_set in dataset.sets:
        dealt = sorted(image_set.images, key=lambda image: digest(protocol.seed, "target", image_set.id, image))
        split = dataset.split_of(image_set)
        for target in sorted(dealt[: protocol.targets], key=image_set.images.index):
            decided: dict[str, Any] = {"target": target, "limits": limits}
            if objects is not None:
                decided |= {"images": (target,), "ordered": True, "labels": objects.get(target, ())}
            units.append(_unit(task, stable_id(task, image_set.id, target), image_set, split, **decided))
    return units


def retrieve_unit(
    image_set: ImageSet,
    query: Query,
    texts: Sequence[Text],
    target: str | None,
    split: SplitName | None,
    *,
    protocol: Protocol,
) -> Unit:
    """A retrieval: other workers than the author find the image of a description."""
    needed, most = protocol.votes(split)
    name = stable_id("retrieve", query.id)
    return _unit(
        "retrieve",
        name,
        image_set,
        split,
        query=query.id,
        texts=tuple(text.text for text in texts),
        text_ids=query.texts,
        truth=(target,) if target is not None else (),
        authors=tuple(sorted({text.author for text in texts})),
        needed=needed,
        most=most,
        full=most > needed and share(protocol.seed, "full", name) < protocol.full_share,
    )


def retrieve_units(dataset: Dataset, protocol: Protocol) -> list[Unit]:
    """Every description of a dataset with its target, to be validated (again)."""
    units = []
    for query, image_set, index in _only_targets(dataset):
        texts, target = [dataset.texts[name] for name in query.texts], image_set.images[index]
        units.append(retrieve_unit(image_set, query, texts, target, dataset.split_of(image_set), protocol=protocol))
    return units


def tag_units(dataset: Dataset, labels: tuple[str, ...], votes: int = 1) -> list[Unit]:
    """Every description of a dataset, to be tagged with phenomena by `votes` workers."""
    return _query_units(dataset, "tag", (), labels=labels, needed=votes, most=votes)


def own_units(dataset: Dataset, study: OwnStudy, votes: int = 0) -> list[Unit]:
    """Every image, set or description of a dataset, as the study says, to be answered by `votes` workers; 0 = as the study says."""
    most, about, name = votes or study.file.votes, study.file.about, study.asked.title
    decided: dict[str, Any] = {"asked": study.asked, "needed": most, "most": most}
    if about == "query":
        return _query_units(dataset, "own", (name,), **decided)
    units: dict[str, Unit] = {}
    for image_set in dataset.sets:
        for images in [image_set.images] if about == "set" else [(image,) for image in image_set.images]:
            shown = decided | ({"images": images, "ordered": True} if about == "image" else {})
            unit_name = stable_id("own", name, about, image_set.id if about == "set" else images[0])
            units.setdefault(unit_name, _unit("own", unit_name, image_set, dataset.split_of(image_set), **shown))
    return [*units.values()]


def _query_units(dataset: Dataset, task: TaskName, name: Sequence[str], **decided: Any) -> list[Unit]:
    """Every description of a dataset that has a target, which is marked, to be judged; ids depend on `name`, too."""
    return [
        _unit(
            task,
            stable_id(task, *name, query.id),
            image_set,
            dataset.split_of(image_set),
            target=image_set.images[index],
            query=f"{task}/{query.id}",
            texts=tuple(dataset.texts[text].text for text in query.texts),
            text_ids=query.texts,
            authors=tuple(sorted({dataset.texts[text].author for text in query.texts})) if task == "own" else (),
            **decided,
        )
        for query, image_set, index in _only_targets(dataset)
    ]


def _only_targets(dataset: Dataset) -> Iterator[tuple[Query, ImageSet, int]]:
    """As `Dataset.targets`. Raises DataError where a query has several."""
    places: dict[str, int] = {}
    for query, image_set, place in dataset.targets():
        if places.setdefault(query.id, place) != place:
            raise DataError(
                f"the query {query.id!r} has several relevant images, and people are asked for one",
                hint="leave the query out of the dataset",
            )
        yield query, image_set, place


def review_unit(unit: Unit, dialogue: Dialogue, votes: int = 1) -> Unit:
    """A finished dialogue for a third party to keep or drop; neither partner may judge it."""
    return Unit(
        id=stable_id("review", dialogue.id),
        task="review",
        image_set=unit.image_set,
        group=unit.group,
        images=(dialogue.photo,),
        ordered=True,
        split=unit.split,
        target=dialogue.photo,
        query=f"review/{dialogue.id}",
        texts=tuple(turn.text for turn in dialogue.turns),
        text_ids=tuple(f"{dialogue.id}/{index:03d}" for index in range(dialogue.shared_at or 0)),
        speakers=tuple(turn.user for turn in dialogue.turns),
        labels=review.LABELS,
        authors=tuple(sorted(dialogue.workers)),
        needed=votes,
        most=votes,
    )


def entail_unit(
    image_set: ImageSet,
    image: str,
    captions: Sequence[str],
    statement: Text,
    split: SplitName | None,
    *,
    votes: int = 3,
) -> Unit:
    """Does this image, with its captions, entail the statement?"""
    return _unit(
        "entail",
        stable_id("entail", image, statement.id),
        image_set,
        split,
        images=(image,),
        ordered=True,
        query=f"entail/{image}/{statement.id}",
        texts=tuple(captions),
        text_ids=(statement.id,),
        statement=statement.text,
        labels=entail.LABELS,
        authors=(statement.author,),
        needed=votes,
        most=votes,
    )


def repeat_units(units: Iterable[Unit], answers: Iterable[Answer], fraction: float, protocol: Protocol) -> list[Unit]:
    """A seeded `fraction` of the answered units, but descriptions, dialogues and checks, to be judged by others again."""
    who = grouped((answer.unit, answer.worker) for answer in answers)
    return [
        replace(
            unit,
            id=stable_id("repeat", unit.id),
            task="repeat",
            of=unit.id,
            like=unit.task,
            authors=tuple(sorted({*unit.authors, *who[unit.id]})),
            round=unit.round + 1,
            needed=1,
            most=1,
            full=False,
            limits=PUBLISHED,
        )
        for unit in units
        if unit.id in who and unit.purpose == "work" and unit.task not in ("dialogue", "describe", "repeat")
        if share(protocol.seed, "repeat", unit.id) < fraction
    ]


def attention_unit(image_set: ImageSet, protocol: Protocol) -> Unit:
    """A check whose text names the position of the image to pick, in the set's own order, which is the same for all."""
    count = min(len(image_set.images), len(_ATTENTION))
    index = digest(protocol.seed, "attention", image_set.id, "0")[0] % count
    return _unit(
        "retrieve",
        stable_id("retrieve", "attention", image_set.id, "0"),  # like that of any retrieval: who is checked sees it
        image_set,
        ordered=True,
        texts=(_ATTENTION[index],),
        truth=(image_set.images[index],),
        most=10**6,
        full=True,
        purpose="attention",
    )


_ATTENTION = (
    N_("This one checks that you are reading: please choose the first image."),
    N_("This one checks that you are reading: please choose the second image."),
    N_("This one checks that you are reading: please choose the third image."),
    N_("This one checks that you are reading: please choose the fourth image."),
    N_("This one checks that you are reading: please choose the fifth image."),
    N_("This one checks that you are reading: please choose the sixth image."),
    N_("This one checks that you are reading: please choose the seventh image."),
    N_("This one checks that you are reading: please choose the eighth image."),
    N_("This one checks that you are reading: please choose the ninth image."),
    N_("This one checks that you are reading: please choose the tenth image."),
)
"""Texts of attention checks, by the index of the image; the page translates them."""


def attention_index(text: str, language: PageLanguage = ENGLISH) -> int | None:
    """The index, from 0, that the text of an attention check asks for on a page in `language`; None for any other text.

    >>> attention_index("This one checks that you are reading: please choose the third image.")
    2
    """
    said = [language.texts.gettext(one) for one in _ATTENTION]
    return said.index(text) if text in said else None


def check_units(dataset: Dataset, protocol: Protocol, purpose: Purpose) -> list[Unit]:
    """Retrievals with a published answer, as `gold` or `qualification` questions. Raises DataError without any."""
    changed = {"query": None, "purpose": purpose, "most": 10**6, "full": True}
    units = [
        replace(unit, id=stable_id("retrieve", purpose, unit.query or ""), **changed)
        for unit in retrieve_units(dataset, protocol)
    ]
    if not units:
        raise DataError(
            f"{dataset.name} has no description with a known target", hint="name a dataset with gold targets"
        )
    return units


def derive_units(unit: Unit, answer: Answer, image_set: ImageSet, protocol: Protocol) -> list[Unit]:
    """Follow-up units of an answer: a retrieval of each description, a review of each dialogue."""
    outcome = task_of(unit).score(unit, answer)
    if unit.task == "describe":
        return [
            retrieve_unit(image_set, query, outcome.texts, unit.target, unit.split, protocol=protocol)
            for query in outcome.queries
        ]
    if unit.task == "dialogue":
        return [review_unit(unit, dialogue, protocol.review_votes) for dialogue in outcome.dialogues]
    return []
