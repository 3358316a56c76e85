"""Which browser the tests of pages use."""

import os

import pytest
from browsers import installed, launch


def program(folder, name):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_an_installed_browser_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed() is None
    chrome = program(tmp_path, "google-chrome-stable")
    assert installed() == str(chrome)
    chromium = program(tmp_path, "chromium")
    assert installed() == str(chromium)


def test_a_snap_is_not_used(tmp_path, monkeypatch):
    """Ubuntu's chromium is a link to the program snap."""
    snap = program(tmp_path / "bin", "snap")
    (tmp_path / "snap").mkdir()
    os.symlink(snap, tmp_path / "snap" / "chromium")
    chrome = program(tmp_path / "chrome", "google-chrome")
    monkeypatch.setenv("PATH", f"{tmp_path / 'snap'}{os.pathsep}{chrome.parent}")
    assert installed() == str(chrome)


@pytest.mark.browser
def test_without_any_browser_there_is_none(tmp_path, monkeypatch):
    playwright = pytest.importorskip("playwright.sync_api")
    monkeypatch.setattr("browsers.installed", lambda: None)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    with playwright.sync_playwright() as play:
        assert launch(play) is None
