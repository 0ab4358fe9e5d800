"""Plans, projections and explanations draw themselves as the last line of a notebook's cell."""

import pytest

import slicewise as sw
from tests.unit.figures.drawn import overlapping, parsed, tooltips


@pytest.fixture(scope="module")
def plan() -> sw.Plan:
    return sw.plan("lenet5", "p100-4x4", batch=64, devices=4, strategy="owt")


def test_a_plan_and_a_projection_draw_themselves(plan: sw.Plan) -> None:
    parsed(plan._repr_html_())
    drawn = sw.oracle("lenet5", "p100-4x4", batch=64, devices=[1, 2, 4])._repr_html_()
    assert "lenet5 on p100-4x4, batch 64" in drawn
    assert overlapping(drawn) == []


def test_an_explanation_draws_what_each_choice_is_worth_above_its_sentences(plan: sw.Plan) -> None:
    html = sw.explain(plan)._repr_html_()
    start, stop = html.index("<svg"), html.index("</svg>") + 6
    drawn = html[start:stop]
    assert overlapping(drawn) == []
    decisions = [decision for decision in sw.explain(plan).decisions if decision.against]
    assert len(decisions) == len({title for title in tooltips(drawn) if " " in title and ":" in title})
    assert html[stop:].startswith("<ol>")
