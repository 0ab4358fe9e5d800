"""A studio of its own, and the system's Chromium, headless. Without a browser these tests are skipped, and say so."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser, Page, expect, sync_playwright  # noqa: E402

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WAIT_MS = 120_000  # a busy machine is slow, not wrong
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Ends with this folder's tests: its event loop would be in the way of others."""
    if CHROMIUM is None:
        pytest.skip("no browser: Chromium is not installed (`apt-get install chromium`)")
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="package")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a studio at a free port."""
    cache = tmp_path_factory.mktemp("cache")
    process = subprocess.Popen(
        [sys.executable, "-m", "slicewise", "studio", "--port", "0", "--no-open"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SLICEWISE_CACHE": str(cache)},
    )
    assert process.stderr is not None
    found = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())
    assert found is not None
    yield found[0]
    process.terminate()
    process.wait(10)
    process.stderr.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A fresh visitor. What the page complains about, and whatever it asks of others, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened = context.new_page()
    opened.set_default_timeout(WAIT_MS)
    said: list[str] = []
    refused = re.compile(r"status of 400")  # a bad file, on purpose: the browser tells it too
    opened.on("console", lambda told: said.append(told.text) if told.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda asked: said.append(asked.url) if not _own(asked.url, address) else None)
    yield opened
    context.close()
    assert [text for text in said if not refused.search(text)] == []


def _own(url: str, address: str) -> bool:
    return url.startswith((address, "blob:", "data:", "file:"))
