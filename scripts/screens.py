"""The studio's pictures in the documents, docs/images/studio*.png. `python scripts/screens.py`; needs Chromium."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs/images"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
LAYER = "classifier.1"  # AlexNet's largest: the choice that matters most


def plan(page: Page, address: str) -> None:
    """AlexNet on 16 GPUs, with every slicing of one layer."""
    page.goto(address)
    page.wait_for_selector("#plan-step")
    page.locator(".layers summary", has_text="features").first.click()
    page.click(f"[data-layer-name='{LAYER}']")
    page.wait_for_selector(".alternative")
    page.locator("#plan").evaluate("(place) => scrollTo(0, place.offsetTop - 68)")


def learn(page: Page, address: str) -> None:
    """The all-reduce, its formula and its numbers."""
    page.goto(f"{address}#learn/1.4")
    page.wait_for_selector("#stage svg")


def main() -> None:
    command = [sys.executable, "-m", "slicewise", "studio", "--port", "0", "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server, sync_playwright() as driver:
        assert server.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/", server.stderr.readline())
        assert found is not None
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, shown in (("studio", plan), ("studio-learn", learn)):
            page = browser.new_page(viewport={"width": 1280, "height": 980})
            page.set_default_timeout(300_000)
            shown(page, found[0])
            page.wait_for_timeout(1500)  # until it has faded in
            page.screenshot(path=IMAGES / f"{name}.png")
        browser.close()
        server.terminate()


if __name__ == "__main__":
    main()
