"""How long the page takes to redraw, in a browser beside a studio.

From a slider to the strategies drawn anew (ResNet-50, 64 devices), and from a chosen slicing to the plan's new price
(ResNet-152, 64 devices), by the marks that the page sets; the first paint by the browser's own.
"""

import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ASKED = "cluster=dgx-a100&devices=64&batch=2048&strategy=data"
LAYER = "layer3.0.conv1"
PAINT, SLIDER, SLICED = "first paint", "slider to redrawn page", "changed slicing to new price"


def durations(page: Page, name: str) -> list[float]:
    found: list[float] = page.evaluate(f"performance.getEntriesByName('{name}').map((entry) => entry.duration)")
    return found


def wait_for(page: Page, name: str, count: int) -> None:
    """Asked again and again: the page's policy evaluates no text."""
    while len(durations(page, name)) < count:
        page.wait_for_timeout(20)


def redrawn(page: Page, address: str) -> list[float]:
    page.goto(f"{address}?model=resnet50&{ASKED}")
    page.wait_for_selector("#plan-step")
    page.wait_for_timeout(2000)
    for number in range(12):
        page.focus("#batch" if number % 2 else "#devices")
        page.keyboard.press("ArrowRight" if number % 4 > 1 else "ArrowLeft")
        wait_for(page, "redraw", number + 1)
        page.wait_for_timeout(200)
    return durations(page, "redraw")


def resliced(page: Page, address: str) -> list[float]:
    page.goto(f"{address}?model=resnet152&{ASKED}")
    page.wait_for_selector("#plan-step")
    page.locator(".layers summary", has_text=LAYER.rpartition(".")[0]).first.click()
    page.click(f"[data-layer-name='{LAYER}']")
    page.wait_for_selector(".alternative")
    for number in range(8):
        page.locator(".alternative[aria-pressed=false]").nth(3 * number).click()
        wait_for(page, "resliced", number + 1)
        page.wait_for_timeout(5000)  # until all prices are there again
    return durations(page, "resliced")


def looked(address: str) -> dict[str, list[float]]:
    """Milliseconds of everything that is looked at, by what it is."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.goto(address)
        page.wait_for_selector("#plan-step")
        rows = {PAINT: [painted(page)], SLIDER: redrawn(page, address), SLICED: resliced(page, address)}
        browser.close()
    return rows


def painted(page: Page) -> float:
    found: float = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return found


def opened(report: Path, times: int = 5) -> list[float]:
    """Milliseconds until a report from disk is there, all of it, each time in a new browser."""
    found = []
    for _ in range(times):
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page()
            page.goto(report.as_uri(), wait_until="load")
            found.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart"))
            browser.close()
    return found
