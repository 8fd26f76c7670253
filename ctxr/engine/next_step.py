"""What comes next in a project: one function of its state, for `ctxr status` and the last line of every command."""

import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

from ctxr.engine.options import GIVEN_IN_PYTHON
from ctxr.engine.project import CHAIN, SETS, command_in
from ctxr.engine.state import DECISIONS, ProjectState, Stored
from ctxr.store import kinds
from ctxr.store.artifacts import merge_hint
from ctxr.store.paths import rooted


def next_step(state: ProjectState) -> str:
    """The command to paste: what was broken off, what a review rejected, what is stale, or what the newest artifact is for."""
    unfinished = [one for one in state.stored if not one.artifact and not one.running]
    merges = [merge_hint(one.path).partition("   ")[0] for one in unfinished]
    broken = shlex.join(["ctxr", *state.broken]) if unfinished and state.broken else ""
    if step := next(filter(None, [*merges, "" if "***" in broken else broken]), ""):
        return step
    if state.rejections:
        return applied(state)
    if again := [one for one, why in repeats(state) if not why]:
        # where ctxr run failed, its first command says what it needs
        return shlex.join(["ctxr", *again[0].words]) if state.run_failed else command_in(state.workdir, "run")
    ends = (kinds.PLAN, kinds.REPRODUCED)  # nor does an empty dataset lead anywhere
    known = [one for one in reversed(state.stored) if one.artifact and one.kind not in ends]
    newest = [one for one in known if one.counts.get("queries") != 0]
    if step := next(filter(None, (step for one in newest for step in _steps(state, one))), ""):
        return step
    if newest:
        furthest = next((state.finished[name] for name in CHAIN if name in state.finished), newest[0])
        return shlex.join(["ctxr", "doctor", str(furthest.path)])
    return command_in(state.workdir, "build-sets", "videos/") if Path("videos").is_dir() else "ctxr build-sets --help"


def applied(state: ProjectState, name: str = "filtered", *words: str) -> str:
    """The command that takes away what people rejected: the filter that made an artifact, with its limits, or one with other `words`."""
    made = state.finished.get(name)
    own = shlex.join(["ctxr", *made.words]) if made and made.words and made.verb == "filter" else ""
    command = own or command_in(state.workdir, "filter", *words)
    return command if "--drop" in command else f"{command} --drop {shlex.quote(str(state.workdir / DECISIONS))}"


def repeats(state: ProjectState) -> list[tuple[Stored, str]]:
    """Stale artifacts in the order in which they are made again, and of each why `ctxr run` leaves it as it is; "" where it does not."""
    left: dict[str, str] = {}
    for name, one in state.finished.items():
        if one.stale:
            left[name] = _left(one) or next((f"{parent} stays stale" for parent in one.parents if left.get(parent)), "")
    return [(state.finished[name], why) for name, why in left.items()]


def _left(one: Stored) -> str:
    """Why a command is not repeated without being asked: it costs people or money, or cannot be known; "" otherwise."""
    words = one.words
    if not words:
        return "no line of history.jsonl made it"
    if any("***" in word for word in words):
        return "a secret of its command is not in history.jsonl"
    if GIVEN_IN_PYTHON in words:
        return "the content of a file of its command was given in Python"
    if "--force" in words:
        return "--force takes answered tasks away"
    asks = ("--launch", "endpoint:")
    costs = words[0] in ("import-answers", "listen", "search") or any(word.startswith(asks) for word in words)
    return f"{words[0]} costs money or people's time" if costs else ""


def _steps(state: ProjectState, one: Stored) -> Iterator[str]:
    """What an artifact is for: commands in their order, each "" where that is done."""
    command, made, path = partial(command_in, state.workdir), partial(state.made_from, one), str(one.path)
    default = next((name for name in SETS if name in state.finished), "")
    named: tuple[str, ...] = () if one.name == default else ("--input", path)
    match one.kind, one.verb:
        case kinds.IMAGE_SETS, verb if not one.counts.get("sets"):
            yield shlex.join(["ctxr", *one.words, "--yield-curve"]) if one.words and verb == "build-sets" else ""
        case kinds.IMAGE_SETS, verb if not made():
            yield _page(state, one, *named)
            yield command("filter", "--brisque", "0.65", *named) if verb == "build-sets" else ""
            yield command("export-tasks", "describe", *named) if verb == "filter" else ""
        case kinds.TASKS, _:
            yield _asked(state, one)
        case kinds.JUDGMENTS, _ if one.counts.get("answers") and not made(kinds.DATASET, kinds.AUDIT):
            yield _counted(state, max(((state.finished[name].made, name) for name in one.parents), default=(0, ""))[1])
        case kinds.DATASET, kinds.REVISE_LABELS:
            yield "" if made() else command("export-tasks", "entail")
        case kinds.DATASET, "build-documents":
            yield "" if made() else command("train", "--recipe", "links-ap", "--dataset", path)
        case kinds.DATASET, _:
            talked = ("train", "--recipe", "dialogue-bm25"), "photochat"
            words, to = talked if one.counts.get("dialogues") else (("eval", _encoder(state, one)), "imagecode")
            yield _page(state, one, "--input", path)
            yield "" if made(kinds.RUN, kinds.EVALUATION) else command(*words, "--dataset", path)
            yield "" if made(kinds.EXPORT) else command("export", "--to", to, "--input", path)
        case ((kinds.RUN | kinds.CLASSIFIER), _):
            yield "" if made(kinds.EVALUATION, kinds.CLASSIFIER_RESULTS) else command("eval", one.path.name)
        case ((kinds.EVALUATION | kinds.CLASSIFIER_RESULTS), _):
            yield _page(state, one, *_evaluated_on(state, one))
        case kinds.PAIRS, _ if not made():
            yield command("train", "--recipe", "entailment-tiny")
        case kinds.REGION_FEATURES, _ if not made():
            yield _over_regions(state, one)


def _page(state: ProjectState, one: Stored, *words: str) -> str:
    """The report, if it is older than an artifact."""
    return command_in(state.workdir, "report", *words) if state.page < one.made else ""


def _evaluated_on(state: ProjectState, one: Stored) -> list[str]:
    """What names the dataset of results for `ctxr report`: the project's, or, such as a release, what --dataset named."""
    places = [str(state.finished[name].path) for name in one.parents if state.finished[name].kind == kinds.DATASET]
    places += [word for option, word in pairwise(one.words) if option == "--dataset"]
    return ["--input", places[0]] if places else []


def _over_regions(state: ProjectState, one: Stored) -> str:
    """The training over region features; none without descriptions of their pictures."""
    if one.artifact is None or any(parent.kind == kinds.IMAGE_SETS for parent in one.artifact.manifest.parents):
        return ""
    read = [word for before, word in pairwise(one.words) if before[:1] != "-" and word and Path(word).exists()]
    # untrained weights where there are none in the folder that the recipe names
    own = [] if Path("models/uniter").is_dir() else ["--set", f"encoder=random:uniter-tiny:{one.counts['features']}"]
    words = [f"regions={one.path.name}", *own, *(["--dataset", read[0]] if read else [])]
    return command_in(state.workdir, "train", "--recipe", "uniter-batch", "--set", *words)


def _asked(state: ProjectState, one: Stored) -> str:
    """What comes after tasks: people who answer, then what counts their answers."""
    judged = state.finished.get(kinds.JUDGMENTS)
    told = judged is not None and one.name in judged.parents
    backend = one.artifact.manifest.config.get("backend") if one.artifact else ""
    if backend not in kinds.SERVED:  # only people know the name of the file
        return "" if told else command_in(state.workdir, "import-answers", "--help")
    if backend == "prolific" and one.words and "--launch" not in one.words and not told:
        return shlex.join(["ctxr", *one.words, "--launch"])
    if state.open is None:  # not served yet, or answers are in another database
        return "" if told else command_in(state.workdir, "serve")
    known = judged.counts.get("answers", 0) + sum(judged.counts.get("refused", {}).values()) if judged else 0
    return _counted(state, one.name) if any(state.open.values()) or state.answered > known else ""


def _counted(state: ProjectState, tasks: str) -> str:
    """What counts the answers to tasks, once there are all; pairs of revised labels have a count of their own."""
    if any((state.open or {}).values()):
        return command_in(state.workdir, "serve")
    entail = Path(tasks).name == "entail"
    return command_in(state.workdir, *((kinds.REVISE_LABELS, "--audit") if entail else ("aggregate",)))


def _encoder(state: ProjectState, one: Stored) -> str:
    """The encoder that picked the sets of a dataset, which is therefore on this machine; else one that is on every machine."""
    known = one.artifact.manifest.models.get("encoder") if one.artifact else None
    if isinstance(known, Mapping) and known.get("name"):
        return rooted(str(known["name"]), one.path)
    return next((_encoder(state, state.finished[name]) for name in one.parents), "ctxr-tiny")
