"""A server of chat completions in a thread, that behaves as badly as it is told."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
Answer = tuple[int, dict[str, str], bytes]
Behaviour = Callable[[Body, int], Answer]
"""What is answered to a request, which is the how-manieth, from 0."""


class FakeServer(ThreadingHTTPServer):
    """Keeps every request that came: `asked` bodies, `keys` the headers that authorise. `drip` parts the bytes of a reply."""

    daemon_threads = True

    def __init__(self, behave: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behave = behave
        self.asked: list[Body] = []
        self.keys: list[str | None] = []
        self.lock = threading.Lock()
        self.drip = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: FakeServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.asked)
            self.server.asked.append(body)
            self.server.keys.append(self.headers["Authorization"])
        status, headers, content = self.server.behave(body, number)
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            for part in [content[at : at + 1] for at in range(len(content))] if self.server.drip else [content]:
                self.wfile.write(part)
                time.sleep(self.server.drip)
        except (BrokenPipeError, ConnectionResetError):
            return

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def serving(behave: Behaviour) -> Iterator[FakeServer]:
    """The server for the length of a with-block."""
    with FakeServer(behave) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def says(text: str | None, **more: Any) -> Answer:
    """A completion with that answer, for 1,000 tokens in and 10 out."""
    usage = more.pop("usage", {"prompt_tokens": 1000, "completion_tokens": 10})
    message = {"role": "assistant", "content": text} | more.pop("message", {})
    choice = {"index": 0, "message": message, "finish_reason": "stop"} | more
    completion = {"model": "fake-1", "choices": [choice], "usage": usage}
    return 200, {"Content-Type": "application/json"}, json.dumps(completion).encode()


def fails(status: int, message: str = "busy", **headers: str) -> Answer:
    """An error in the usual form."""
    return status, headers, json.dumps({"error": {"message": message, "code": None}}).encode()


def pictures_in(body: Body) -> list[str]:
    """Data addresses of the pictures that were sent, in their order."""
    parts = body["messages"][-1]["content"]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def words_in(body: Body) -> str:
    """The last text of a request."""
    return str(body["messages"][-1]["content"][-1]["text"])
