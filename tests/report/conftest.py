"""A real browser for the pages."""

from pathlib import Path

import pytest

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if not Path(CHROMIUM).exists():
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


# Plotly says so when names beside a narrow matrix leave it no room; it keeps the last margins.
HARMLESS = "WARN: Too many auto-margin redraws."


def is_trouble(message):
    return message.type != "log" and message.text != HARMLESS


@pytest.fixture
def opened(browser):
    """Opens a page; at the end there must have been no error and no request."""
    troubles, contexts = [], []

    def open_page(path, scheme="light", width=1300, height=900):
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": height}
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: troubles.append(m.text) if is_trouble(m) else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request",
            lambda r: troubles.append(r.url) if not r.url.startswith(("file:", "data:")) else None,
        )
        page.on("dialog", lambda d: troubles.append(d.message))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []
