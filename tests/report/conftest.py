"""Pages opened in a real browser."""

import pytest


@pytest.fixture
def opened(browser):
    """Opens a page, a file or an address; at the end there must have been no error and no request
    to anybody else.
    """
    troubles, contexts = [], []

    def open_page(path, scheme="light", width=1300, height=900):
        place = path if isinstance(path, str) else path.as_uri()
        allowed = ("file:", "data:", "blob:", place.partition("?")[0])
        context = browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: troubles.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith(allowed) else troubles.append(r.url),
        )
        page.on("dialog", lambda d: troubles.append(d.message))
        page.goto(place)
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []
