"""The built documentation as a reader sees it, in a real browser, opened from the disk."""

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(browser, site):
    """Opens a page of the site; at the end there must have been no error and no request to
    anybody else.
    """
    troubles, contexts = [], []

    def open_page(name, scheme="light", width=1280):
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 844}, reduced_motion="reduce"
        )
        contexts.append(context)
        context.on("console", lambda m: troubles.append(m.text) if m.type == "error" else None)
        context.on("weberror", lambda error: troubles.append(str(error.error)))
        context.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:")) else troubles.append(r.url),
        )
        page = context.new_page()
        page.set_default_timeout(120_000)  # a busy machine takes long to draw a page of formulas
        page.goto((site / name).as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def luminance(page, what):
    """Mean of red, green and blue of a colour of the body, 0 to 255."""
    script = f"getComputedStyle(document.body).{what}.match(/[\\d.]+/g).slice(0, 3).map(Number)"
    return sum(page.evaluate(script)) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_formulas_are_rendered(visit, scheme):
    page = visit("mathematics.html", scheme)
    page.wait_for_selector(".katex-display")
    formulas = page.locator(".arithmatex").count()
    assert formulas > 100
    assert page.locator(".arithmatex > .katex, .arithmatex > .katex-display").count() == formulas
    assert page.locator(".katex-error").count() == 0
    assert "\\sum" not in page.locator("article").evaluate("e => e.innerText")
    ink, paper = luminance(page, "color"), luminance(page, "backgroundColor")
    assert (ink < paper) == (scheme == "light")
    colour = "getComputedStyle(document.querySelector('.katex')).color"
    assert page.evaluate(colour) == page.evaluate(
        "getComputedStyle(document.querySelector('article p')).color"
    )


@pytest.mark.parametrize(
    ("words", "found"), [("pipeline", "pandas and Pipeline"), ("market basket", "mlxtend")]
)
def test_search_finds(visit, words, found):
    page = visit("index.html")
    page.fill("input.md-search__input", words)
    page.press("input.md-search__input", "End")  # the page looks at the words when a key goes up
    page.locator(".md-search-result__item", has_text=found).first.wait_for()


def test_dark_mode_can_be_chosen(visit):
    page = visit("index.html")
    before = luminance(page, "backgroundColor")
    page.click("label[title='Switch to dark mode']")
    assert luminance(page, "backgroundColor") < before - 100


def test_version_and_next_page(visit):
    import boolweave

    page = visit("index.html")
    assert boolweave.__version__ in page.inner_text(".md-header")
    page.click("a.md-footer__link--next")
    page.wait_for_url("**/getting-started.html")


@pytest.mark.parametrize(
    "name",
    ["index.html", "choosing.html", "mathematics.html", "api/BooleanMatrixFactorization.html"],
)
def test_pages_fit_on_a_phone(visit, name):
    """Tables and code may scroll by themselves, the page may not."""
    page = visit(name, width=390)
    page.wait_for_load_state("load")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
