"""A real browser for tests: Debian's Chromium, driven by selenium."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1280,900"),
)
BROWSER: Final = next((found for name in BROWSERS if (found := shutil.which(name))), None)
DRIVER: Final = shutil.which("chromedriver")
MARKS: Final = [
    pytest.mark.browser,
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None,
        reason="no chromium and chromedriver on PATH: apt-get install chromium chromium-driver",
    ),
]


@contextmanager
def browsing() -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own, which notes what it logs and requests."""
    profile = tempfile.mkdtemp()
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()
    shutil.rmtree(profile, ignore_errors=True)


def log_of(chrome: Any, kind: str) -> list[dict[str, Any]]:
    """What the browser noted since it was last asked; selenium has no types for it."""
    entries: list[dict[str, Any]] = chrome.get_log(kind)
    return entries


def requests_of(chrome: webdriver.Chrome) -> Iterator[str]:
    """What pages of files asked for; the browser's own first page is none."""
    for entry in log_of(chrome, "performance"):
        message = json.loads(entry["message"])["message"]
        is_request = message["method"] == "Network.requestWillBeSent"
        if is_request and message["params"]["documentURL"].startswith("file:"):
            yield message["params"]["request"]["url"]
