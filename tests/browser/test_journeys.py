"""What people do on the page, from the first visit to the last lesson."""

import json
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from slicewise.graph.sources import load_graph
from slicewise.planning import plan
from slicewise.plans.plan import Plan
from slicewise.studio.lessons.handout import page_of
from slicewise.units import seconds

FORMATS = Path(__file__).parents[1] / "formats" / "v1"
SMALL = "?model=lenet5&cluster=p100-4x4&devices=4&batch=64"


def _planned(page: Page, address: str, asked: str = SMALL) -> None:
    page.goto(f"{address}{asked}")
    page.wait_for_selector("#plan-step")


def _told(plan: Plan) -> str:
    return seconds(plan.predicted.iteration_s).replace("us", "µs")


def _slide(page: Page, name: str, key: str = "ArrowRight") -> None:
    page.focus(f"#{name}")
    page.keyboard.press(key)


def test_first_visit_to_a_plan(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("[data-strategy=data]")
    page.wait_for_selector("#plan-step")
    expect(page.locator("#proof")).to_contain_text("proven")
    found = plan("alexnet", "p100-4x4", devices=16, batch=512)
    assert page.inner_text("#plan-step") == _told(found)
    assert "model=alexnet" not in page.url  # what nobody changed is not in the address yet


def test_a_slider_changes_the_strategies_at_once(page: Page, address: str) -> None:
    _planned(page, address)
    before = page.inner_text("[data-strategy=data] td.num")
    _slide(page, "batch")
    expect(page.locator("[data-strategy=data] td.num").first).not_to_have_text(before)
    _slide(page, "devices")
    expect(page.locator("#strategies-title")).to_have_text("Strategies on 8 devices")
    asked = parse_qs(urlsplit(page.url).query)
    assert (asked["devices"], asked["batch"]) == (["8"], ["128"])
    page.reload()
    expect(page.locator("#devices-number")).to_have_value("8")
    times = page.evaluate("performance.getEntriesByName('redraw').map((entry) => entry.duration)")
    assert all(0 < time < 60_000 for time in times)


def test_click_a_layer_change_its_slicing_and_undo(page: Page, address: str) -> None:
    _planned(page, address)
    before = page.inner_text("#plan-step")
    page.click("[data-layer-name='features.0']")
    page.wait_for_selector(".alternative")
    chosen = page.locator(".alternative[aria-pressed=false]").last
    price, letters = chosen.locator(".num").first.inner_text(), chosen.get_attribute("data-letters")
    chosen.click()
    page.wait_for_selector("#paid")
    assert page.inner_text("#plan-step") == price
    assert f"edit=features.0%3D{letters}" in page.url
    expect(page.locator("#proof")).to_contain_text("nothing is proven")
    page.reload()
    page.wait_for_selector("#plan-step")
    assert page.inner_text("#plan-step") == price
    page.click("[data-layer-name='features.0']")
    page.wait_for_selector(".alternative")
    page.click("#best-given")
    page.wait_for_selector("#plan-step")
    expect(page.locator("#proof")).to_contain_text("proven")
    assert "fix=features.0" in page.url
    _planned(page, address)
    page.click("[data-layer-name='features.0']")
    page.locator(".alternative[aria-pressed=false]").last.click()
    page.wait_for_selector("#paid")
    page.click("#undo")
    assert page.inner_text("#plan-step") == before
    page.click("#redo")
    assert page.inner_text("#plan-step") == price


def test_the_figures_of_a_plan_are_drawn_and_a_box_is_a_layer(page: Page, address: str) -> None:
    _planned(page, address)
    for name in ("slicings", "costs", "memory", "timeline", "network"):
        page.click(f"[data-figure={name}]")
        page.wait_for_selector("#plan-figure svg")
    page.locator("#plan-figure [data-layer='features.0']").click()
    expect(page.locator("#inspector h3")).to_have_text("features.0")


def test_two_plans_side_by_side(page: Page, address: str) -> None:
    _planned(page, address)
    page.click("#keep")
    page.select_option("#plan-strategy", "filter")
    page.wait_for_selector("#plan-step")
    page.click("nav >> text=Compare")
    page.wait_for_selector("#view-compare table.strategy-table")
    expect(page.locator("#view-compare h2")).to_contain_text("longer than A")
    page.reload()
    page.wait_for_selector("#view-compare table.strategy-table")
    page.click("text=Open A again")
    expect(page.locator("#plan-title")).to_contain_text("layer-wise")


def test_a_search_can_be_cancelled_and_begun_again(page: Page, address: str) -> None:
    page.goto(f"{address}?model=resnet152&cluster=dgx-a100&devices=64&batch=2048")
    page.click("#cancel")
    expect(page.locator("#plan")).to_contain_text("You cancelled")
    _planned(page, address)


def test_a_bad_file_is_refused_in_words_and_a_good_one_is_used(page: Page, address: str, tmp_path: Path) -> None:
    _planned(page, address)
    (tmp_path / "bad.json").write_text('{"layers": [}')
    page.set_input_files("#file", tmp_path / "bad.json")
    expect(page.locator("#upload-error")).to_contain_text("bad.json: not JSON")
    (tmp_path / "model.pt2").write_bytes(b"PK")
    page.set_input_files("#file", tmp_path / "model.pt2")
    expect(page.locator("#upload-error")).to_contain_text("upload a graph")
    load_graph("lenet5").save(tmp_path / "mine.json")
    page.set_input_files("#file", tmp_path / "mine.json")
    expect(page.locator("#network option:checked")).to_have_text("mine.json (uploaded)")
    page.wait_for_selector("#plan-step")
    filtered = plan("lenet5", "p100-4x4", devices=4, batch=64, strategy="filter")
    filtered.save(tmp_path / "plan.json")
    page.set_input_files("#file", tmp_path / "plan.json")
    expect(page.locator("#plan-step")).to_have_text(_told(filtered))


def test_what_is_exported_is_what_is_shown(page: Page, address: str, tmp_path: Path) -> None:
    _planned(page, address)
    page.click("#export")
    with page.expect_download() as download:
        page.click("[data-form=plan]")
    download.value.save_as(tmp_path / "plan.json")
    saved = Plan.load(tmp_path / "plan.json")
    assert page.inner_text("#plan-step") == _told(saved)
    assert saved.certificate["optimal"]
    page.click("#export")
    with page.expect_download() as download:
        page.click("[data-form=projection]")
    download.value.save_as(tmp_path / "oracle.json")
    assert json.loads((tmp_path / "oracle.json").read_text())["rows"]
    page.click("#export")
    with page.expect_download() as download:
        page.click("[data-form=report]")
    download.value.save_as(tmp_path / "report.html")
    page.click("#run-this")
    expect(page.locator("dialog code").first).to_contain_text("slicewise plan lenet5 --cluster p100-4x4 --devices 4")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).not_to_be_visible()
    page.context.set_offline(True)
    page.goto((tmp_path / "report.html").as_uri())
    expect(page.locator("svg").first).to_be_visible()
    looks = []
    for _ in ("light", "dark"):
        page.click(".theme")
        looks.append(page.evaluate("getComputedStyle(document.querySelector('svg.sw .bg')).fill"))
    assert looks == ["rgb(255, 255, 255)", "rgb(20, 24, 29)"]


def test_learn_to_the_end(page: Page, address: str) -> None:
    page.goto(f"{address}#learn")
    page.wait_for_selector("#stage svg")
    for _ in range(60):
        if page.locator(".question").count():
            _answer(page)
        if page.locator("#the-end").count():
            break
        page.click("#next")
        page.wait_for_selector("#stage svg")
    assert page.locator("#the-end").count() == 1
    assert page.locator(".lesson-list .tag.good").count() == 8  # the last one's comes with the next drawing


def _answer(page: Page) -> None:
    """Tries one after the other, as people do."""
    for option in page.locator(".option input").all():
        option.check()
        if page.locator(".verdict .tag.good").count():
            return
    pytest.fail(f"no answer is right: {page.inner_text('.question')}")


def test_the_handout_is_learned_from_disk_offline(page: Page, address: str, tmp_path: Path) -> None:
    """The tables come from the studio, which has them already; `report --learn` makes the same."""
    page.goto(f"{address}#learn/9")
    page.wait_for_selector("#stage svg")
    tables = page.evaluate(
        """async () => {
            const { stream } = await import("/page/api.js");
            const part = (name) => stream("lessons", { part: name }, () => {});
            return { closed: await part("closed"), searched: await part("searched") };
        }"""
    )
    (tmp_path / "learn.html").write_text(page_of(tables))
    page.context.set_offline(True)
    page.goto((tmp_path / "learn.html").as_uri())
    page.wait_for_selector("#stage svg")
    page.click("#next")
    expect(page.locator("#step-title")).to_have_text("Forward")
    page.goto(f"{(tmp_path / 'learn.html').as_uri()}#learn/9.4")
    page.wait_for_selector(".question")
    _answer(page)


def test_the_terms_of_every_formula_add_up_to_the_packages_own_step(page: Page, address: str) -> None:
    """For every lesson that has a closed form, at every place of its sliders."""
    page.goto(f"{address}#learn")
    page.wait_for_selector("#stage svg")
    worst = page.evaluate(
        """async () => {
            const { LESSONS } = await import("/page/lessons.js");
            const { stream } = await import("/page/api.js");
            const t = await stream("lessons", { part: "closed" }, () => {});
            let worst = 0, looked = 0;
            for (const lesson of LESSONS.filter((one) => !one.searched))
              for (const devices of t.devices) for (const batch of t.batches) for (const rate of t.rates) {
                const whole = t.tables[lesson.id === "hybrid" ? "data+filter" : lesson.id]?.[rate][batch][devices];
                for (const segments of Object.keys(whole?.segments ?? { 1: 0 }).map(Number))
                  for (const split of Object.keys(whole?.splits ?? { "1x1": 0 }))
                    for (const length of whole ? [0] : t.attention.lengths) for (const step of lesson.steps.keys()) {
                      const v = { devices, batch, rate, segments, split, length };
                      const row = lesson.row(t, v, step);
                      if (row.reason) continue;
                      const sum = lesson.formula(t, v, row, step).reduce((all, term) => all + (term.value ?? 0), 0);
                      worst = Math.max(worst, Math.abs(sum / row.step - 1));
                      looked += 1;
                    }
              }
            return { worst, looked };
        }"""
    )
    assert worst["looked"] > 500
    assert worst["worst"] < 1e-6


def test_uploaded_traces_stand_below_the_predicted_step_and_zoom(page: Page, address: str) -> None:
    _planned(page, address)
    files = [FORMATS / f"profiler-rank{rank}.json.gz" for rank in (0, 1)]
    page.set_input_files("#file", files)
    expect(page.locator("#traces .tag")).to_have_count(2)
    figure = page.locator("#plan-figure svg.sw")
    for row in ("predicted, device 0: compute", "measured, device 0: compute", "measured, device 1: compute"):
        expect(figure).to_contain_text(row)
    expect(page.locator("#traces")).to_contain_text("measured")
    lanes = page.locator("#plan-figure svg.zoom")
    whole = lanes.get_attribute("viewBox")
    page.click("text=zoom in")
    assert lanes.get_attribute("viewBox") != whole
    page.click("#plan-figure .tools >> text=all")
    assert lanes.get_attribute("viewBox") == whole
    page.locator("#traces .remove").first.click()
    expect(page.locator("#traces .tag")).to_have_count(1)
    page.locator("#traces .remove").first.click()
    expect(figure).not_to_contain_text("measured, device")


def test_a_figure_that_comes_late_does_not_replace_a_newer_one(page: Page, address: str) -> None:
    """The one with the first trace alone, after the one with both."""
    _planned(page, address)
    late: list[Route] = []

    def hold(route: Route) -> None:
        if len(json.loads(route.request.post_data or "{}")["traces"]) == 1:
            late.append(route)
        else:
            route.continue_()

    page.route("**/api/figure", hold)
    page.set_input_files("#file", [FORMATS / f"profiler-rank{rank}.json.gz" for rank in (0, 1)])
    figure = page.locator("#plan-figure svg.sw")
    expect(figure).to_contain_text("measured, device 1: compute")
    with page.expect_response("**/api/figure") as answer:
        late[0].continue_()
    answer.value.finished()
    page.wait_for_timeout(300)
    expect(figure).to_contain_text("measured, device 1: compute", timeout=2000)


def test_a_pipeline_is_drawn_and_exported(page: Page, address: str, tmp_path: Path) -> None:
    _planned(page, address, f"{SMALL}&strategy=pipeline")
    page.click("[data-figure=timeline]")
    expect(page.locator("#plan-figure svg.sw")).to_contain_text("predicted, device 3: compute")
    page.click("#export")
    with page.expect_download() as download:
        page.click("[data-form=plan]")
    download.value.save_as(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").pipeline is not None


@pytest.mark.parametrize("system", ["light", "dark"])
def test_light_or_dark_can_be_chosen_and_is_kept(page: Page, address: str, system: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=system)
    _planned(page, address)
    page.click("[data-figure=slicings]")
    page.wait_for_selector("#plan-figure svg")

    def look() -> tuple[str, str]:
        """Of the page, and of a figure that the server drew."""
        painted = "getComputedStyle(document.querySelector('%s')).%s"
        return page.evaluate(painted % ("body", "color")), page.evaluate(painted % ("svg.sw .bg", "fill"))

    by_system = look()
    looks = {}
    for chosen in ("light", "dark"):
        page.click(".theme")
        looks[chosen] = look()
    assert looks["light"] != looks["dark"]
    assert by_system == looks[system]
    page.emulate_media(media="print")
    assert look() == looks["light"]
    page.emulate_media(media="screen")
    page.reload()
    page.wait_for_selector("#plan-step")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.click(".theme")
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(page: Page, address: str, tmp_path: Path) -> None:
    _planned(page, address)
    large = tmp_path / "large.json"
    large.write_bytes(bytes(33 * 2**20))
    page.set_input_files("#file", large)
    expect(page.locator("#upload-error")).to_contain_text("large.json: 34.6 MB; at most 33.6 MB are read")


def test_the_whole_page_works_by_keyboard(page: Page, address: str) -> None:
    _planned(page, address)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.focus("[data-layer-name='features.0']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".alternative")
    page.locator(".alternative[aria-pressed=false]").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#paid")
    page.focus("#export")
    page.keyboard.press("Enter")
    expect(page.locator("[data-form=plan]")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#export")).to_be_focused()
