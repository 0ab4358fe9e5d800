"""A report opened from disk in a real browser, with no network: no complaint, and its script works."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from slicewise.cluster.cluster import load_cluster
from slicewise.graph.sources import load_graph
from slicewise.planning import baseline_plan
from slicewise.report.reporting import report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FORMATS = Path(__file__).parents[1] / "formats" / "v1"
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--dump-dom",
)  # fmt: skip

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser here: apt-get install chromium")


def _opened(page: Path, profile: Path) -> tuple[str, list[str]]:
    """The document after its scripts have run, and what the console said."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def test_a_report_opens_offline_without_a_word_on_the_console_and_zooms(tmp_path: Path) -> None:
    baseline_plan(load_graph("lenet5"), load_cluster("p100-4x4").with_devices(4), "owt", batch=64).save(
        tmp_path / "plan.json"
    )
    page = tmp_path / "report.html"
    text = str(report([tmp_path / "plan.json", FORMATS / "run.json", FORMATS / "timeline.json.gz"]))
    page.write_text(text)
    document, said = _opened(page, tmp_path / "profile")
    assert said == []
    assert document.count(">zoom in</button>") == 1
    whole = re.search(r'class="zoom"[^>]*viewBox="0 0 ([0-9.]+) ', document)
    assert whole
    # the same page with one script more, which its policy would not run: it presses the button
    press = "<script>document.querySelector('.tools button').click(); console.log('pressed')</script></body>"
    page.write_text(re.sub(r"<meta http-equiv=[^>]*>", "", text).replace("</body>", press))
    document, said = _opened(page, tmp_path / "profile")
    assert len(said) == 1  # what a console says is seen here
    assert "pressed" in said[0]
    half = re.search(r'class="zoom"[^>]*viewBox="([0-9.]+) 0 ([0-9.]+) ', document)
    assert half
    assert float(half[2]) == pytest.approx(float(whole[1]) / 2)
    assert float(half[1]) == pytest.approx(float(whole[1]) / 4)
    # under the page's own policy that script does not run, and the console tells so
    page.write_text(text.replace("</body>", press))
    _, said = _opened(page, tmp_path / "profile")
    assert len(said) == 1
    assert "Content Security Policy" in said[0]
