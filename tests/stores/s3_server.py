"""An S3 server on loopback: moto, in the environment .venv-stores, behind faults that tests order.

``python s3_server.py PORT``. Requests are served one after the other, so that a conditional write is one
step, as S3 promises. ``POST /_faults`` takes JSON: the next ``times`` requests whose method is ``method`` and
whose path contains ``path`` get ``status`` with the S3 error ``code``, or, of status 0, a connection that
ends in mid-body; ``{"clear": true}`` takes back what is left. ``POST /_fill`` puts ``n`` objects of one byte
into a ``folder`` of a ``bucket``. ``GET /_counts`` gives the requests by method since it was last asked,
those for a page of a listing as ``LIST``.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

Environ = dict[str, Any]


class Faulty:
    """A WSGI application in front of another, which answers some requests with faults."""

    def __init__(self, inner: Callable[..., Iterable[bytes]]) -> None:
        self.inner = inner
        self.faults: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()

    def __call__(self, environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == "/_faults":
            fault = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            self.faults = [] if fault.get("clear") else [*self.faults, fault]
            return answered(start, "200 OK", b"{}")
        if path == "/_fill":
            order = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
            for number in range(order["n"]):
                store.put_object(order["bucket"], f"{order['folder']}/{number:05}", b"x")
            return answered(start, "200 OK", b"{}")
        if path == "/_counts":
            told, self.counts = json.dumps(self.counts).encode(), Counter()
            return answered(start, "200 OK", told)
        self.counts["LIST" if "list-type" in environ["QUERY_STRING"] else method] += 1
        fault = next((one for one in self.faults if one["method"] == method and one["path"] in path), None)
        if fault is None:
            return self.inner(environ, start)
        fault["times"] -= 1
        self.faults = [one for one in self.faults if one["times"] > 0]
        if fault["status"]:
            text = f"<Error><Code>{fault['code']}</Code><Message>ordered by a test</Message></Error>"
            return answered(start, f"{fault['status']} {fault['code']}", text.encode())
        return cut_off(list(self.inner(environ, start)))


def answered(start: Callable[..., Any], status: str, body: bytes) -> list[bytes]:
    """Answer with a body."""
    kind = "application/xml" if body.startswith(b"<") else "application/json"
    start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


def cut_off(body: list[bytes]) -> Iterator[bytes]:
    """Yield the first half of a body, then break the connection."""
    whole = b"".join(body)
    yield whole[: len(whole) // 2]
    raise ConnectionAbortedError


if __name__ == "__main__":
    application = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), Faulty(application), threaded=False)
