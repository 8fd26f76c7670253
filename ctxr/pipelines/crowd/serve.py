"""`ctxr serve`: serve the annotation pages from this machine until interrupted."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from socket import socket
from threading import Event, Thread
from typing import NamedTuple

import msgspec

from ctxr.annotation.artifacts import Tasks, open_tasks, read_tasks
from ctxr.annotation.config import listed
from ctxr.annotation.confirmation import unconfirmed_note
from ctxr.annotation.frozen_units import changes_to
from ctxr.annotation.journal.identities import Identities
from ctxr.annotation.journal.journal import open_journal
from ctxr.annotation.journal.results import TaskProgress
from ctxr.annotation.journal.worker_state import LEADS_TO, people_needed
from ctxr.annotation.launch import codes_of, private_folder
from ctxr.annotation.platforms.prolific import PLACEHOLDERS, PLATFORM
from ctxr.annotation.project_journal import journal_of, remember
from ctxr.annotation.pseudonyms import pseudonym, read_key
from ctxr.annotation.study import STUDY, read_texts
from ctxr.annotation.web.app import make_app
from ctxr.annotation.web.chat import UnitNotifier
from ctxr.annotation.web.review import Review, make_review, review_signer
from ctxr.annotation.web.site import SHIPPED, Invitation, Site, Study, crowd_signer
from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.readers.text_files import read_utf8
from ctxr.engine.next_step import applied
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import SETS, chosen
from ctxr.engine.state import DECISIONS, read_state
from ctxr.errors import CtxrError, DataError, UsageError, plural, some
from ctxr.pipelines.crowd.config import ReviewReport, RunningServer, Serve, ServeReport
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.kinds import SERVED, TASKS
from ctxr.store.paths import relative
from ctxr.store.scores import read_values
from ctxr.web.language import PageLanguage
from ctxr.web.server import LOCAL, address_of, answer_requests, listening_socket
from ctxr.web.translations import read_languages

NEWS_SECONDS = 5.0
"""Between two lines about answers that came in."""


def studies_of(everything: Sequence[Tasks], private: Path, served: Sequence[str]) -> dict[str, Study]:
    """The exported studies, by the name in their address; `served` are the tasks that are served, all where empty."""
    studies = {}
    for tasks in everything:
        names = tuple(sorted({unit.task for unit in tasks.units if unit.purpose == "work"}))
        if tasks.backend == PLATFORM and (not served or set(names) <= set(served)):
            folder, codes = tasks.path / PLATFORM, partial(codes_of, private, tasks.name, make=False)
            minutes = msgspec.json.decode((folder / "study.json").read_bytes())["maximum_allowed_time"]
            studies[tasks.name] = Study(codes, tasks.config["per_submission"], names, timedelta(minutes=minutes))
    return studies


def run(
    config: Serve, progress: Progress = SILENT, opened: Callable[[RunningServer], None] = lambda _: None
) -> ServeReport:
    """Serve until interrupted; `opened` is called once, as soon as workers can sign in.

    Raises UsageError for a port in use or a wrong option, UnfinishedError without tasks, DataError for damaged ones.
    """
    config.check()
    if config.host not in LOCAL and not config.base_url.startswith("https://"):
        progress.warn(
            "answers and personal links are sent unencrypted: put an https proxy in front, and give its address with --base-url"
        )
    listening = listening_socket(config.host, config.port)
    with listening:
        address = config.base_url.rstrip("/") or address_of(listening, config.host)
        if config.review:
            return run_review(config, address, listening, progress, opened)
        site, waiting, people = open_site(config, address, progress)
        remember(config.workdir, config.database)
        if since := site.journal.paused():
            progress.warn(f"the study is paused since {since}: no units are given out until its page resumes it")
        before = _answered(site.journal.progress())
        bell = UnitNotifier()
        try:
            opened(_running(config, site, waiting, people))
            with news_of(site, progress):
                answer_requests(
                    make_app(site, bell), listening, bell.close, progress.warn, behind_proxy=bool(config.base_url)
                )
            counted = site.journal.progress()
            total = _answered(counted)
            new = total - before
            workers = sum(state.answers > 0 for state in site.journal.workers())
            still = {task: state.open for task, state in counted.items()}
            return ServeReport(new.total(), total, workers, still)
        finally:
            site.journal.close()
            site.identities.close()


class OpenSite(NamedTuple):
    """Everything that pages need; how many units of each task wait, and how many people suffice for all of them, by pool and in all."""

    site: Site
    waiting: dict[str, int]
    people: dict[str, int]


def _served(workdir: Path, every: Sequence[Tasks], progress: Progress) -> list[Tasks]:
    """The tasks that are served here; what is not is said. Raises UsageError without any, and where their protocols differ."""
    everything = [tasks for tasks in every if tasks.backend in SERVED]
    for tasks in every:
        if tasks.backend not in SERVED:
            progress.note(f"{tasks.path} was exported for {tasks.backend}, so it is not served here")
    if not everything:
        raise UsageError(
            f"{every[0].path} was exported for {every[0].backend}, and there is nothing else",
            hint=f"ctxr export-tasks {every[0].units[0].task if every[0].units else 'describe'}",
        )
    for folder in sorted((workdir / TASKS).iterdir()):
        if folder.is_dir() and not (folder / MANIFEST).is_file():
            progress.warn(f"{folder} is unfinished and is not served")
    for tasks in everything[1:]:
        if tasks.protocol != everything[0].protocol:
            raise UsageError(
                f"{everything[0].path} and {tasks.path} were exported with different protocols",
                hint=f"ctxr export-tasks {tasks.name} {changes_to(everything[0].protocol, tasks.protocol)}",
            )
    return everything


def open_site(config: Serve, base_url: str, progress: Progress) -> OpenSite:
    """The site, with the project's tasks in the journal. What was exported for a platform with pages of its own is done there."""
    every = [read_tasks(one.path) for one in open_tasks(config.workdir)]
    everything = _served(config.workdir, every, progress)
    private = private_folder(config.workdir)
    # whatever may refuse comes before the journal is written
    key, languages, texts = read_key(private), languages_of(config), read_texts(study_folder(config))
    files, studies = _pictures(everything), studies_of(everything, private, listed(config.tasks))
    pictures = {name: image.sha256 for tasks in everything for name, image in tasks.images.items()}
    units = {unit.id: unit for tasks in everything for unit in tasks.units}
    journal = open_journal(
        journal_of(config.workdir, config.database),
        units.values(),
        {name: image_set for tasks in everything for name, image_set in tasks.sets.items()}.values(),
        everything[0].protocol,
        lease_for=timedelta(minutes=config.lease_minutes),
        pictures=pictures,
        exported={unit.id for tasks in every for unit in tasks.units},
    )
    site = Site(
        journal,
        Identities(private, key),
        partial(pseudonym, key),
        crowd_signer(key),
        files,
        {name: (image.width, image.height) for tasks in everything for name, image in tasks.images.items()},
        base_url,
        config.open,
        studies,
        listed(config.tasks) or None,
        config.per_round,
        config.rate,
        everything[0].protocol.language,
        languages,
        texts,
        config.workdir,
        bool(everything[0].protocol.attention_every),
    )
    waiting = _waiting(site, journal.progress())
    _tell(site, waiting, config, progress)
    people = people_needed(units.values(), everything[0].protocol, pictures)
    if 0 < config.invite < people["all"]:
        invited = plural(config.invite, "person", "people")
        progress.warn(f"{invited} invited; it takes {people['all']} to collect all votes")
    return OpenSite(site, waiting, people)


def study_folder(config: Serve) -> Path:
    """Where the texts of the study are, if there are any."""
    return config.study or config.workdir / STUDY


def languages_of(config: Serve) -> list[PageLanguage]:
    """The languages of the pages. Raises UsageError for one without translations, and what `read_languages` raises."""
    found, own = read_languages(SHIPPED, study_folder(config)), study_folder(config)
    wanted = listed(config.languages) or tuple(found)
    if unknown := [tag for tag in wanted if tag not in found]:
        hint = f"choose of {', '.join(found)}, or put {unknown[0]}.po into {own}"
        raise UsageError(f"--languages {unknown[0]}: there are no translations", hint=hint)
    return [found[tag] for tag in wanted]


def _tell(site: Site, waiting: Mapping[str, int], config: Serve, progress: Progress) -> None:
    """Warn of no open unit, unconfirmed answers, and a study without a consent or with texts translated in part."""
    if not waiting:
        progress.warn("no unit is open" + (f" of --tasks {config.tasks}" if site.tasks else ""))
    if note := unconfirmed_note(site.journal):
        progress.warn(note)
    if not site.texts.version and (site.studies or site.anybody or invited_names(config)):
        tell = progress.warn if site.studies or site.anybody else progress.note
        where = study_folder(config) / "consent.md"
        tell(f"people are not asked for consent: write the information about the study into {where}")
    asked = set(site.journal.progress())
    tasks = site.tasks or sorted(asked | {after for after, before in LEADS_TO.items() if before in asked})
    for tag in (one.tag for one in site.languages):
        if lacking := site.texts.untranslated(tag, tasks):
            own = f"{study_folder(config) / lacking[0]}.{tag}.md"
            progress.warn(
                f"readers of {tag} get {some(lacking)} in English: write {own}, or leave {tag} out of --languages"
            )


def _pictures(everything: Sequence[Tasks]) -> dict[str, Path]:
    """Files by image id. Raises DataError for a path that leads out of its artifact, or when no picture is there."""
    files: dict[str, Path] = {}
    for tasks in everything:
        for name, image in tasks.images.items():
            path = Path(image.path)
            if path.is_absolute() or ".." in path.parts:
                raise DataError(f"{tasks.path / 'images.jsonl'}: the path of {name!r} leads out of its folder")
            files[name] = tasks.root / path
    if files and not any(file.is_file() for file in files.values()):
        raise DataError(
            f"the pictures of {everything[0].path} are not in {everything[0].root}",
            hint="put the sets' folder back, or ctxr export-tasks again",
        )
    return files


def _waiting(site: Site, states: Mapping[str, TaskProgress]) -> dict[str, int]:
    """Open units of the tasks that are served, by task."""
    served = site.tasks or tuple(states)
    return {task: state.open for task, state in states.items() if state.open and task in served}


def _answered(states: Mapping[str, TaskProgress]) -> Counter[str]:
    return Counter({task: state.answered for task, state in states.items()})


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{task} {number}" for task, number in numbers.items()) or "nothing"


@contextmanager
def news_of(site: Site, progress: Progress) -> Iterator[None]:
    """While this lasts, a line says every few seconds what came in, and another one when no unit is open any more."""
    ended = Event()

    def tell() -> None:
        told = _answered(site.journal.progress())
        while not ended.wait(NEWS_SECONDS):
            with suppress(CtxrError):  # a database that does not answer is asked again
                states = site.journal.progress()
                new, waiting = _answered(states) - told, _waiting(site, states)
                told = _answered(states)
                if new:
                    progress.note(f"new answers: {_counted(new)}; still open: {_counted(waiting)}")
                if new and not waiting:
                    progress.note("all work is done: Ctrl-C ends the server, and says what comes next")

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _running(config: Serve, site: Site, waiting: Mapping[str, int], people: Mapping[str, int]) -> RunningServer:
    """What is said once workers can sign in."""
    names = invited_names(config)
    invited = names or ([] if site.anybody or site.studies else ["you"])
    identities = {name: f"team/{name}" for name in invited}
    links = {name: f"{site.base_url}/i/{site.signer.sign(Invitation(one))}" for name, one in identities.items()}
    workers = {name: site.pseudonym("local", one) for name, one in identities.items()}
    if site.anybody:
        links["anybody"] = f"{site.base_url}/"
    links |= {f"Prolific {name}": f"{site.base_url}/p/{name}?{PLACEHOLDERS}" for name in site.studies}
    return RunningServer(site.base_url, waiting, people, links, workers, site.run_link)


def invited_names(config: Serve) -> list[str]:
    """The names that links are printed for. Raises what `read_utf8` raises."""
    names = [f"worker {number}" for number in range(1, config.invite + 1)]
    if config.workers_file is not None:
        text = read_utf8(config.workers_file, "--workers-file names a text file in UTF-8, one name a line")
        names += [name for line in text.splitlines() if (name := line.strip())]
    return names


def run_review(
    config: Serve, base_url: str, listening: socket, progress: Progress, opened: Callable[[RunningServer], None]
) -> ReviewReport:
    """Serve a review until interrupted. Raises UnfinishedError without image sets, DataError for damaged files."""
    source = chosen(config.input, config.workdir, SETS, progress)
    dataset, file = open_sets(source), config.workdir / DECISIONS
    review = Review(dataset, file, read_values(config.scores) if config.scores else {})
    if not review.sets:
        raise UsageError(f"{source} holds no set", hint="name another artifact with --input")
    if config.scores and not review.scores:
        hint = f"ids are those of images, such as {review.sets[0].images[0]}"
        raise DataError(f"{config.scores} is about no image of {source}", hint=hint)
    private = private_folder(config.workdir)
    key = read_key(private)
    signer = review_signer(key)
    with closing(Identities(private, key)) as identities:
        workers = {name: identities.worker("local", f"team/{name}") for name in invited_names(config) or ["you"]}
    links = {name: f"{base_url}/i/{signer.sign(Invitation(worker))}" for name, worker in workers.items()}
    opened(RunningServer(base_url, {"sets": review.counts()["open"]}, {}, links, workers))
    app = make_review(review, base_url, signer)
    answer_requests(app, listening, lambda: None, progress.warn, behind_proxy=bool(config.base_url))
    # what was filtered is filtered again with its limits
    verb, name = open_artifact(source).manifest.verb, relative(source, config.workdir)
    named = ("--input", str(source)) if verb == "build-sets" and name != "sets" else ()
    command = applied(read_state(config.workdir), name if verb == "filter" or named else "filtered", *named)
    counts = review.counts()
    still = {"sets": counts.pop("open")}
    return ReviewReport(review.new, counts, len(workers), still, file, source, command if file.is_file() else "")
