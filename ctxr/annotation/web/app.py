"""The server's routes, and the pages for what goes wrong."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from ctxr.annotation.journal.results import NotAllowed
from ctxr.annotation.web.after import ExitQuestions
from ctxr.annotation.web.answers import OwnAnswers
from ctxr.annotation.web.before import Introduction
from ctxr.annotation.web.chat import Chat, UnitNotifier
from ctxr.annotation.web.pages import Pages, Show, application
from ctxr.annotation.web.run import RunPages
from ctxr.annotation.web.sign_in import Prolific, SignIn
from ctxr.annotation.web.site import Site
from ctxr.annotation.web.work import Work
from ctxr.web.failures import Handlers, error_handlers, problem_json, too_fast
from ctxr.web.guard import RateLimited
from ctxr.web.language import N_, _
from ctxr.web.static import HttpProblem


def make_app(site: Site, bell: UnitNotifier | None = None) -> ASGIApp:
    """The application that serves `site`; `bell` wakes who waits for news of a chat."""
    pages = Pages(site)
    sign_in, prolific = SignIn(pages), Prolific(pages)
    work = Work(pages, prolific)
    chat, before, answers = Chat(pages, work, bell or UnitNotifier()), Introduction(pages), OwnAnswers(pages, work)
    run, after = RunPages(site), ExitQuestions(pages)
    # what is asked for most stands first: the router tries one after the other
    shown: dict[str, Show] = {
        "/w/{link}": work.show,
        "/next": work.next,
        "/": sign_in.home,
        "/i/{token}": pages.invited,
        "/p/{study}": prolific.come,
        "/consent": before.consent,
        "/instructions/{task}": before.instructions,
        "/exit": after.show,
        "/answers": answers.show,
        "/w/{link}/correct": answers.edit,
        "/w/{link}/correct/picture/{key}": work.picture,
        "/w/{link}/picture/{key}": work.picture,
        "/w/{link}/talk": chat.show,
        "/w/{link}/talk/events": chat.events,
        "/run": run.overview,
        "/run/{token}": run.invited,
        "/run/person/{worker}": run.person,
        "/run/picture/{key}": run.picture,
        "/static/{version}/{name}": pages.static.serve,
    }
    posted = {
        "/w/{link}": work.answer,
        "/enter": sign_in.enter,
        "/i/{token}": pages.accept,
        "/consent/{act}": before.decide,
        "/exit": after.answer,
        "/check": work.check,
        "/told/{number:int}": work.put_away,
        "/run/pause": run.pause,
        "/run/{token}": run.accept,
        "/run/person/{worker}": run.act,
        "/w/{link}/correct": answers.correct,
        "/w/{link}/stop": work.stop,
        "/w/{link}/talk/{step}": chat.act,
    }
    return application(pages, shown, posted, _handlers(pages, run), site.addresses)


def _handlers(pages: Pages, run: RunPages) -> Handlers:
    def page(request: Request, error: HttpProblem) -> Response:
        kept = error.kept or getattr(request.state, "kept", ())  # texts of the posted form; see `LeasedUnit.accept`
        own = run if request.url.path.startswith(run.START) else pages
        return own.problem(error, kept=kept)

    def explain(request: Request, error: HttpProblem) -> Response:
        plain = request.url.path.endswith(("/check", "/events"))
        script = plain or "application/json" in request.headers.get("accept", "")
        return problem_json(error) if script else page(request, error)

    def refused(request: Request, error: NotAllowed) -> Response:
        return explain(request, HttpProblem(409, _("This did not work"), str(error), said=str(error)))

    failed = N_("We cannot store anything at the moment; it is not your fault. Please try again in a few minutes.")
    broken = N_("It is not your fault. What you sent before is stored; please go back and try again.")
    return error_handlers(page, explain, failed, broken) | {
        NotAllowed: refused,
        RateLimited: lambda request, error: too_fast(pages.problem, error.args[0]),
    }
