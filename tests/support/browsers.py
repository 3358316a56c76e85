"""A browser for tests of pages: an installed Chromium or Chrome, or the one that Playwright has."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def installed() -> str | None:
    """The path of an installed browser.

    A snap does not count: it does not start in a container, and cannot read temporary files.
    """
    for name in ("chromium", "google-chrome", "google-chrome-stable"):
        path = shutil.which(name)
        if path is not None and Path(path).resolve().name != "snap":
            return path
    return None


def launch(play: Any) -> Any:
    """Start a browser without a window; None if there is none, not even Playwright's own."""
    from playwright.sync_api import Error

    try:
        return play.chromium.launch(executable_path=installed(), args=FLAGS)
    except Error as error:
        if "Executable doesn't exist" in str(error):
            return None
        raise
