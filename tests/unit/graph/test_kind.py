"""What is true of a kind is said in graph/kind.py."""

import ast
from pathlib import Path

import slicewise

SOURCE = Path(slicewise.__file__).parent
OWN_LISTS = ("cost/recost.py", "cost/recount.py")  # the second evaluator's, on purpose
BESIDE_KIND = ("graph", "runtime")  # what reads operators and what runs them may tell single kinds apart


def test_planner_costs_and_pictures_ask_for_traits_and_list_no_kinds() -> None:
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE)
        if name.parts[0] in BESIDE_KIND or str(name) in OWN_LISTS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                kinds = [item for item in node.elts if ast.unparse(item).startswith("Kind.")]
                assert len(kinds) < 2, f"{name}:{node.lineno}: make it a Trait"
