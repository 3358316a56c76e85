"""A page with a slider, served to this computer alone."""

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from commands import run_here

from boolweave import BooleanMatrixFactorization
from boolweave.report.serving import Explorer, Server

TABLE = np.kron(np.eye(3), np.ones((5, 4)))


def fit(n_components):
    if n_components == 5:
        raise ValueError("five are too many")
    return BooleanMatrixFactorization(n_components, method="max-sum", random_state=0).fit(TABLE)


@pytest.fixture
def server():
    served = Server(Explorer(fit(1), fit, 5.0, "Blocks"))
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def wait_for(server, state):
    for _ in range(200):
        found = server.explorer.state()
        if found["state"] == state:
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_only_this_page_is_answered(server):
    token = f"token={server.token}"
    answer, page = ask(server, f"/?{token}")
    assert answer.status == 200 and "Blocks" in page and 'max="12"' in page
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    own = f"http://127.0.0.1:{server.server_port}"
    refused = [
        ("/", {}),
        ("/?token=", {}),
        (f"/?{token}x", {}),
        (f"/?{token[:-1]}", {}),
        (f"/status?{token}", {"Host": f"attacker.example:{server.server_port}"}),
        (f"/status?{token}", {"Host": "127.0.0.1"}),
        (f"/status?{token}", {"Origin": "http://attacker.example"}),
        (f"/status?{token}", {"Origin": "null"}),
    ]
    for path, headers in refused:
        answer, text = ask(server, path, **headers)
        assert answer.status == 403 and "Blocks" not in text, (path, headers)
    local = {"Host": f"localhost:{server.server_port}", "Origin": own}
    assert ask(server, f"/status?{token}", **local)[0].status == 200
    assert ask(server, f"/other?{token}")[0].status == 404
    assert ask(server, f"/status?{token}", "POST")[0].status == 404
    assert ask(server, f"/fit?{token}&n=2")[0].status == 404  # GET changes nothing
    assert ask(server, f"/?{token}", "PUT")[0].status == 501
    for n in ("0", "13", "-1", "two", "", "0" * 9 + "1999", "%C2%B2"):
        answer, text = ask(server, f"/fit?{token}&n={n}", "POST")
        assert (answer.status, text) == (400, "n must be a whole number from 1 to 12")
    assert server.server_address[0] == "127.0.0.1" and server.explorer.shown == 1


def test_another_number_is_fitted_once(server):
    token = f"token={server.token}"
    state = json.loads(ask(server, f"/fit?{token}&n=3", "POST")[1])
    assert state["state"] in ("fitting", "done")
    assert wait_for(server, "done")["n"] == 3
    page = ask(server, f"/?{token}")[1]
    assert page.count('class="card"') == 3 and 'id="tried-here"' in page
    kept = server.explorer.models[3]
    assert server.explorer.ask(1) == {"state": "done", "n": 1}  # known: at once
    server.explorer.ask(3)
    assert server.explorer.models[3] is kept


def test_a_fit_that_fails_is_told(server):
    server.explorer.ask(5)
    assert (
        "5 factors could not be fitted: five are too many" in wait_for(server, "failed")["message"]
    )
    assert server.explorer.shown == 1
    server.explorer.ask(2)
    assert wait_for(server, "done")["n"] == 2


def test_the_last_wish_counts():
    """Numbers that were asked for while another one was fitted are left out."""
    begun, go_on, fitted = threading.Event(), threading.Event(), []

    def slow(n):
        begun.set()
        go_on.wait(20)
        fitted.append(n)
        return fit(n)

    for first in (2, 5):  # also if the first fit fails
        begun.clear()
        go_on.clear()
        fitted.clear()
        explorer = Explorer(fit(1), slow, 5.0, "Blocks")
        explorer.ask(first)
        assert begun.wait(20)
        for n in (3, 4, 6):
            assert explorer.ask(n)["state"] == "fitting"
        go_on.set()
        for _ in range(200):
            if explorer.state() == {"state": "done", "n": 6}:
                break
            time.sleep(0.05)
        assert explorer.shown == 6 and fitted == [first, 6]


@pytest.mark.browser
@pytest.mark.parametrize("width", [1300, 360])
def test_the_slider_refits(server, opened, width):
    page = opened(server.url, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#n-factors").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("#n-chosen").text_content() == "3"
    page.wait_for_selector(".card:nth-of-type(3)", timeout=20_000)
    page.wait_for_selector("html[data-ready]")
    assert "Three factors explain" in page.locator("#short").text_content()
    page.locator("#tried-here circle").first.wait_for()
    assert page.locator("#tried-here circle").count() == 2
    assert page.evaluate("document.activeElement.id") == "n-factors"
    page.keyboard.press("End")
    page.wait_for_selector(".card:nth-of-type(12)", timeout=20_000)
    page.wait_for_selector("html[data-ready]")


def test_the_command_ends_with_ctrl_c(tmp_path):
    lines = [
        "name,a,b,c,d",
        *(f"n{i},1,1,0,0" for i in range(4)),
        *(f"m{i},0,0,1,1" for i in range(4)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    command = ["explore", "t.csv", "-k", "2", "--method", "max-sum", "--no-browser"]
    process = subprocess.Popen(
        [sys.executable, "-m", "boolweave", *command], cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        url = urlsplit(process.stdout.readline().strip())
        assert url.hostname == "127.0.0.1" and url.query.startswith("token=")
        connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=20)
        connection.request("GET", f"/?{url.query}")
        page = connection.getresponse().read().decode()
        assert "<h1>t.csv</h1>" in page and "Two factors explain a table of 8 rows" in page
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=20)[1]
    finally:
        process.kill()
    assert process.returncode == 0 and said.endswith("stop the server\nstopped\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["none.csv"], "none.csv"),
        (["t.csv", "--port", "70000"], "65535"),
        (["t.csv", "--checkpoint", "here"], "leave out --checkpoint"),
        (["none.csv", "--damping", "7"], "--damping: expected a number in"),
    ],
)
def test_bad_commands(tmp_path, options, words):
    (tmp_path / "t.csv").write_text("1,0\n0,1\n")
    done = run_here("explore", *options, "--no-browser", cwd=tmp_path, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    said = [line for line in done.stderr.splitlines() if line.startswith("boolweave: ")]
    assert len(said) == 1 and words in said[0]
