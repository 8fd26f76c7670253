"""Prolific over the wire, on the standard library alone: a token, a few addresses, patience."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from ctxr.errors import CtxrError, DataError

ADDRESS = "https://api.prolific.com/api/v1"

TOKEN = "PROLIFIC_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable that holds the access token; it is read from nowhere else."""

TRIES = 6

LONGEST = 60.0
"""Seconds that one wait lasts at most."""


class ProlificClient:
    """The few calls that a study needs. `sleep` is given so that a test need not wait."""

    def __init__(self, token: str, address: str = ADDRESS, sleep: Callable[[float], None] = time.sleep) -> None:
        self._token, self._address, self._sleep = token, address.rstrip("/"), sleep

    def create(self, payload: Mapping[str, Any]) -> str:
        """Make a draft of a study; returns its id. It is not published and costs nothing yet.

        Not repeated where nobody knows whether the first request arrived: that could make two studies.
        """
        return str(self._call("POST", "/studies/", payload, again=False)["id"])

    def studies(self, internal_name: str) -> list[str]:
        """Ids of studies with an internal name: whether one was made by a request whose answer was lost."""
        return [str(row["id"]) for row in self._pages("/studies/") if row.get("internal_name") == internal_name]

    def publish(self, study: str) -> str:
        """Publish a study, from when on people come and are paid; returns its status."""
        return str(self._call("POST", f"/studies/{study}/transition/", {"action": "PUBLISH"}).get("status", ""))

    def submissions(self, study: str) -> list[dict[str, Any]]:
        """Every submission of a study, page by page."""
        found = self._pages(f"/studies/{study}/submissions/?limit=100&offset=0")
        return [row | {"study_id": row.get("study_id") or study} for row in found]

    def _pages(self, first: str) -> Iterator[dict[str, Any]]:
        """The results of a list, over all its pages."""
        path: str | None = first
        while path:
            answer = self._call("GET", path)
            yield from answer["results"]
            links = (answer.get("_links") or {}).get("next") or {}
            following = links.get("href") if isinstance(links, dict) else None
            path = following.removeprefix(self._address) if following else None
            if path and not path.startswith("/"):
                raise DataError(f"Prolific names {path!r} as the next page, which is not its own address")

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None, again: bool = True) -> Any:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Token {self._token}", "Content-Type": "application/json"}
        for number in range(TRIES):
            request = Request(self._address + path, content, headers, method=method)  # noqa: S310 - the address is ours
            try:
                with urlopen(request, timeout=30) as answer:  # noqa: S310
                    return json.loads(answer.read() or b"{}")
            except HTTPError as error:
                with error:
                    said = error.read().decode(errors="replace")
                # too many requests: it was refused before anything was done
                patient = error.code == 429 or (error.code >= 500 and again)
                if not patient or number == TRIES - 1:
                    raise _refused(error.code, said) from error
                wait = error.headers.get("Retry-After", "")
                self._sleep(min(LONGEST, float(wait) if wait.isdigit() else 2.0**number))
            except (URLError, TimeoutError) as error:
                if not again or number == TRIES - 1:
                    raise CtxrError(
                        f"Prolific cannot be reached: {error}", hint="run the same command again"
                    ) from error
                self._sleep(min(LONGEST, 2.0**number))
            except ValueError as error:
                raise DataError(f"Prolific answered to {path} with something that is not JSON") from error
        raise CtxrError("Prolific cannot be reached", hint="run the same command again")


def connect(address: str = ADDRESS) -> ProlificClient:
    """A client with the token of the environment. Raises CtxrError without one."""
    token = os.environ.get(TOKEN, "")
    if not token:
        raise CtxrError(f"there is no access token for Prolific: {TOKEN} is not set", hint=f"export {TOKEN}=…")
    return ProlificClient(token, address)


def _refused(code: int, said: str) -> CtxrError:
    try:
        detail = json.loads(said).get("error", {}).get("detail", said)
    except (ValueError, AttributeError):
        detail = said
    hint = f"check {TOKEN}" if code in (401, 403) else "see the message, change the export, and run the command again"
    return CtxrError(f"Prolific refused with {code}: {str(detail)[:300]}", hint=hint)
