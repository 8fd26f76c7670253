"""`ctxr workers --data-protection`: what is kept about people in this project, in Markdown, for an ethics application."""

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from ctxr.annotation.artifacts import CROWD, open_tasks, read_judgments
from ctxr.annotation.journal.identities import Identities, kept_identities
from ctxr.annotation.journal.journal import Journal, open_journal
from ctxr.annotation.journal.kept import KeptTable
from ctxr.annotation.launch import private_folder
from ctxr.annotation.study import CONSENT, EXIT, STUDY
from ctxr.annotation.waiting import JOURNAL
from ctxr.engine.project import command_in
from ctxr.errors import UnfinishedError, plural
from ctxr.pipelines.crowd.withdraw import copies
from ctxr.store.artifacts import MANIFEST
from ctxr.store.kinds import DATASET, JUDGMENTS
from ctxr.store.paths import relative

_PRIVATE = (
    ("identities.sqlite", "local", "who is behind the pseudonyms: the tables above"),
    (
        "key",
        "local",
        "the key from which pseudonyms are made; with it and a name, anybody can tell whether that person took part",
    ),
    (
        "prolific-submissions.json",
        "prolific",
        "the list of submissions that Prolific gave last, with ids of participants",
    ),
    ("prolific-TASK.json", "prolific", "completion codes; nothing about people"),
    ("pay.csv", "prolific", "the pay sheet: submission, pseudonym, answers, reward and bonus"),
    ("bonuses.jsonl", "prolific", "bonuses that were ordered, by submission"),
)
_SENT = {
    "local": "Our own pages send nothing to anybody else, and load nothing from elsewhere.",
    "prolific": "Prolific recruits and pays: it is sent the study, its completion codes, approvals, requests to return, and amounts of "
    "bonuses by submission. It knows the participants; no answer is sent to it.",
    "label-studio": "Tasks were exported for Label Studio, which keeps answers and accounts of its own. ctxr itself sends nothing there.",
}


def statement(journal: Journal | None, workdir: Path) -> str:
    """The statement, in Markdown; without a journal what a study will keep."""
    with TemporaryDirectory() as folder, closing(open_journal(Path(folder) / JOURNAL)) as empty:
        Identities(Path(folder), b"").close()
        return "\n".join(_lines(journal or empty, workdir, Path(folder))) + "\n"


def _lines(journal: Journal, workdir: Path, empty: Path) -> Iterator[str]:
    """`empty` has an empty file of identities."""
    private, judgments, backends = private_folder(workdir), workdir / JUDGMENTS, {"local"}
    people = {state.worker for state in journal.workers()}
    if (judgments / MANIFEST).is_file():  # those of other platforms, too
        people |= {answer.worker for answer in read_judgments(judgments).answers}
    with suppress(UnfinishedError):
        backends |= {one.manifest.config["backend"] for one in open_tasks(workdir)}
    workers = sorted(people)
    yield f"# What is kept about people\n\n{plural(len(workers), 'person', 'people')} took part so far, each under a pseudonym."
    yield "Times are in UTC. No address of a computer and nothing about a browser is kept."
    yield f"\n## Answers, in the journal (`{CROWD}`)"
    yield from _tables(journal.kept())
    yield f"\n## Identities, in `{CROWD}/private`\n\nThis folder can be read by its owner alone and is never exported."
    yield from _tables(kept_identities(private) or kept_identities(empty))
    yield "\n| file | what it holds |\n| --- | --- |"
    yield from (f"| `{name}` | {words} |" for name, of, words in _PRIVATE if of in backends or [*private.glob(name)])
    yield "\n## Copies\n\nThese hold pseudonyms or what people wrote, or were made from such data:\n"
    yield from [f"- `{relative(path, workdir)}`" for path in copies(workdir, workers)] or ["none yet"]
    names = {file.name.split(".")[0] for file in (workdir / STUDY).glob("*.md")}
    took = "how long answers took, and answers to the questions at the end"
    took = took if EXIT in names or journal.exit_answers() else "and how long answers took"
    yield f"\n## What is published\n\nThe dataset (`{DATASET}`) and its exports hold what people wrote and chose, pseudonyms,"
    yield f"{took}. Names, ids of platforms and the key are in none of them."
    yield "\n## What is sent to others\n"
    yield from (f"- {sentence}" for backend, sentence in _SENT.items() if backend in backends)
    asked = CONSENT in names or journal.consents()
    where = "People withdraw on the page of the consent, or tell us." if asked else "Who wants to withdraw tells us."
    yield f"\n## Withdrawing\n\n{where} Their data is deleted with"
    yield f"`{command_in(workdir, 'workers', '--withdraw', 'NAME')}`. What stays is the pseudonym, as that of somebody who withdrew,"
    yield "and, until they are paid, what is needed for that. Data that was published before cannot be called back."
    if "label-studio" in backends:
        yield "What was answered on Label Studio is deleted there."


def _tables(kept: Iterable[KeptTable]) -> Iterator[str]:
    for table in kept:
        people = "" if table.people is None else f" about {plural(table.people, 'person', 'people')}"
        name = table.name.removeprefix("crowd_")
        yield f"\n### {name}: {plural(table.rows, 'row')}{people}\n\n| column | what it says |\n| --- | --- |"
        yield from (f"| `{column}` | {words} |" for column, words in table.columns.items())
