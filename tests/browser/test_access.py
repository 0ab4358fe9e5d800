"""What axe finds: nothing serious, in any view, light or dark, wide or narrow."""

from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from tests.browser.conftest import WAIT_MS
from tests.campaigns import LONG, sample

SMALL = "?model=lenet5&cluster=p100-4x4&devices=4&batch=64"
KEPT = quote("model=lenet5&devices=4&batch=64&strategy=filter")
FIGURES = ("network", "timeline", "slicings", "costs", "memory")[: 5 if LONG else 2]
VIEWS = {
    SMALL: "#plan-step",
    f"{SMALL}&strategy=pipeline": "#plan-step",
    **{f"{SMALL}&strategy=data#{name}": "#plan-figure svg" for name in FIGURES},
    "#learn/1.4": "#stage svg",
    "#learn/5.4": ".question",
    "#learn/7.6": ".question",
    "#compare": "#view-compare h2",
    f"{SMALL}&kept={KEPT}#compare": "#view-compare table.strategy-table",
}


@pytest.mark.parametrize(("scheme", "width"), sample([("light", 1280), ("dark", 390)], quick=[("dark", 390)]))
def test_axe_finds_nothing_serious(browser: Browser, address: str, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    for view, there in VIEWS.items():
        page.goto("about:blank")
        page.goto(f"{address}{view}")
        if there == "#plan-figure svg":
            page.click(f"[data-figure={view.rpartition('#')[2]}]")
        page.wait_for_selector(there)
        if there == "#plan-step" and "pipeline" not in view:
            page.click("[data-layer-name='features.0']")
            page.wait_for_selector(".alternative")
        found = Axe().run(page)
        serious = [
            (problem["id"], node["html"][:200])
            for problem in found.response["violations"]
            if problem["impact"] in ("serious", "critical")
            for node in problem["nodes"]
        ]
        assert serious == [], view
        wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide, f"{view} scrolls sideways"
    context.close()
