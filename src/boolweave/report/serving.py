"""A page with a slider for the number of factors, served only to the user of this computer.

The server listens on 127.0.0.1. Every request must contain the token in the address of the page and
name this server as its host, so that neither pages of other programs nor other users of the machine
can read the table. Another number of factors is fitted in a thread of its own.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
import time
import warnings
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from boolweave.report.page import render_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from boolweave.estimator import BooleanMatrixFactorization

    Fit = Callable[[int], BooleanMatrixFactorization]

ADDRESS = "127.0.0.1"


class Explorer:
    """The model that is shown, those fitted before it, and the one that is being fitted.

    Parameters
    ----------
    first : BooleanMatrixFactorization
        The fitted model that is shown first.
    fit : callable of a number of factors
        It returns the fitted model, and is called in a thread, one call at a time.
    limit : float
        Time limit of a fit in seconds.
    title : str
        Title of the page.
    """

    def __init__(
        self, first: BooleanMatrixFactorization, fit: Fit, limit: float, title: str
    ) -> None:
        self.fit, self.limit, self.title = fit, limit, title
        self.shown = len(first.components_)
        self.models = {self.shown: first}
        # The slider goes up to twice the initial number of factors, but at least to the first of
        # these numbers and at most to the second.
        least_at_most, most = 12, 60
        self.most = min(max(least_at_most, 2 * self.shown), most, *first.observations_.shape)
        self.most = max(self.most, self.shown)
        self._lock = threading.Lock()
        self._wanted: int | None = None  # the fit that is running or comes next
        self._fitting: tuple[int, float] | None = None  # the running fit, and when it began
        self._failure = ""

    def page(self) -> str:
        """The page about the model that is shown."""
        with self._lock:
            n = self.shown
            tried = [
                {"rank": k, "wrong": _wrong(model), "best": k == n}
                for k, model in sorted(self.models.items())
            ]
        return render_report(
            self.models[n],
            title=self.title,
            exploring={
                "n": n,
                "most": self.most,
                "tried": tried,
                "status": "Move the slider to fit another number of factors.",
            },
        )

    def ask(self, n: int) -> dict[str, Any]:
        """Show n factors, fitting them first if necessary, and return the state."""
        with self._lock:
            self._failure = ""
            self._wanted = n
            if self._fitting is None and n not in self.models:
                self._fitting = n, time.monotonic()
                threading.Thread(target=self._work, daemon=True).start()
            elif self._fitting is None:
                self.shown = n
        return self.state()

    def state(self) -> dict[str, Any]:
        """The current state: number of factors, seconds and their limit, or a message."""
        with self._lock:
            if self._fitting is not None:
                n, since = self._fitting
                seconds = time.monotonic() - since
                return {"state": "fitting", "n": n, "seconds": seconds, "limit": self.limit}
            if self._failure:
                return {"state": "failed", "message": self._failure}
            return {"state": "done", "n": self.shown}

    def _work(self) -> None:
        """Fit the wanted number until it is there; numbers wanted in between are skipped."""
        while True:
            with self._lock:
                n = self._wanted
                assert n is not None
                if n in self.models:
                    self.shown, self._fitting = n, None
                    return
                self._fitting = n, time.monotonic()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the page reports what did not work
                    model = self.fit(n)
            except Exception as error:
                with self._lock:
                    if self._wanted != n:
                        continue
                    self._failure = f"{n} factors could not be fitted: {error}"
                    self._fitting = None
                return
            with self._lock:
                self.models[n] = model


def _wrong(model: BooleanMatrixFactorization) -> int:
    """The number of observed entries that the factors get wrong."""
    counts = model.result_.counts(model.observations_)
    return int(counts[1, 0] + counts[0, 1])


class Server(ThreadingHTTPServer):
    """A server of the pages of an explorer at `url`; `serve_forever` runs until Ctrl-C.

    Parameters
    ----------
    explorer : Explorer
    port : int
        The port; 0 means any free port.
    """

    daemon_threads = True
    allow_reuse_address = False  # on some systems another program could listen, too

    def __init__(self, explorer: Explorer, port: int = 0) -> None:
        self.explorer = explorer
        self.token = secrets.token_urlsafe(24)
        super().__init__((ADDRESS, port), Handler)

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://{ADDRESS}:{self.server_port}/?token={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing if a browser closed the connection before it got its answer."""


class Handler(BaseHTTPRequestHandler):
    """Answer one request: for the page, the state, or another number of factors."""

    server: Server
    server_version, sys_version = "boolweave", ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer with the page, or with the state of a fit."""
        asked = self._asked()
        if asked is None:
            return
        path, _ = asked
        if path == "/":
            self._send(HTTPStatus.OK, self.server.explorer.page(), "text/html")
        elif path == "/status":
            self._send_json(self.server.explorer.state())
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        """Begin to fit another number of factors."""
        asked = self._asked()
        if asked is None:
            return
        path, query = asked
        text, most = query.get("n", ""), self.server.explorer.most
        if path != "/fit":
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        elif not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= most:
            self._refuse(HTTPStatus.BAD_REQUEST, f"n must be a whole number from 1 to {most}")
        else:
            self._send_json(self.server.explorer.ask(int(text)))

    def _asked(self) -> tuple[str, dict[str, str]] | None:
        """Path and query of a request; None if it was refused."""
        port = self.server.server_port
        hosts = {f"{name}:{port}" for name in (ADDRESS, "localhost")}
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        # A foreign page that makes its own host name point to 127.0.0.1 has another host.
        if self.headers.get("Host") not in hosts:
            self._refuse(HTTPStatus.FORBIDDEN, "this host is not served")
        elif self.headers.get("Origin", f"http://{ADDRESS}:{port}") not in {
            f"http://{host}" for host in hosts
        }:
            self._refuse(HTTPStatus.FORBIDDEN, "requests from other pages are not served")
        elif not hmac.compare_digest(query.get("token", "").encode(), self.server.token.encode()):
            self._refuse(
                HTTPStatus.FORBIDDEN, "the token is missing or wrong; use the whole address"
            )
        else:
            return url.path, query
        return None

    def _send_json(self, answer: dict[str, Any]) -> None:
        self._send(HTTPStatus.OK, json.dumps(answer), "application/json")

    def _refuse(self, code: HTTPStatus, reason: str) -> None:
        self._send(code, reason, "text/plain")

    def _send(self, code: HTTPStatus, text: str, kind: str) -> None:
        content = text.encode("utf-8", "backslashreplace")
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing, because the address contains the token."""
