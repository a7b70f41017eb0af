"""docs/equations.md lists what the code cites of the paper, place by place, and nothing else."""

import ast
import re
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "antidote_learn"
PAGE = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
LABEL = re.compile(r"\b(?:eq|thm|app|alg|def):[A-Za-z]\w*")

# Labels of the paper's LaTeX source: equations, theorems, definitions, appendices, algorithms.
PAPER = {
    "alg:ANTIDOTE",
    "app:bisection_KL",
    "app:delta_penalized_opt",
    "app:duality_proof",
    "app:nbhd_interp",
    "app:param",
    "app:pseudocode",
    "app:sensitivity",
    "app:thm_optimizer",
    "app:time",
    "app:transition_matrix_comp",
    "def:P_star_P_T",
    "eq:Df_delta_bound",
    "eq:Df_delta_bound2",
    "eq:Df_delta_bound3",
    "eq:Df_equal_weight",
    "eq:E_Q_tilde_L_zero",
    "eq:G_KL",
    "eq:G_KL_limit",
    "eq:G_f",
    "eq:Gibbs_app",
    "eq:KL_gradient",
    "eq:KL_weights",
    "eq:P_T_dQdP",
    "eq:P_T_def",
    "eq:P_T_def_main",
    "eq:P_star_def",
    "eq:P_star_def_main",
    "eq:Q_tilde_T_hstar_htilde_0",
    "eq:Q_tilde_form",
    "eq:app_KL_duality_objective",
    "eq:argmin_relaxed",
    "eq:delta_rmax",
    "eq:delta_rmax_app",
    "eq:equality_of_perturbed_and_unperturbed",
    "eq:f_alpha_star",
    "eq:f_div_def",
    "eq:inf_Df_zero",
    "eq:inf_Df_zero2",
    "eq:reformulation_final",
    "eq:reformulation_final_KL",
    "eq:reformulation_final_KL_app",
    "eq:reformulation_final_app",
    "eq:reformulation_inner",
    "eq:reformulation_inner2",
    "eq:reformulation_opt_delta",
    "eq:reformulation_opt_delta_KL",
    "eq:relaxed_optim",
    "eq:stoch_opt",
    "eq:strong_duality_app",
    "eq:sup_T_r_bound",
    "thm:duality",
    "thm:exact_labels_solve_relaxed_problem",
    "thm:exact_sol_main",
    "thm:h_star_unique_sol_app",
}

Citation = tuple[str, str]  # label, "file: function"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def listed(heading: str) -> set[Citation]:
    return {(label, place) for cells in rows(heading) for label in quoted(cells[0]) for place in quoted(cells[2])}


def scopes(tree: ast.Module) -> list[tuple[int, int, str]]:
    """(first line, last line, name) of functions, classes and their methods; inner functions belong to the outer."""
    found = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append((node.lineno, node.end_lineno or 0, node.name))
        if isinstance(node, ast.ClassDef):
            inner = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            found += [(item.lineno, item.end_lineno or 0, f"{node.name}.{item.name}") for item in inner]
    return found


def citations(text: str, name: str) -> set[Citation]:
    """The labels of a file with the innermost scope of `scopes` they stand in."""
    around = scopes(ast.parse(text))
    found = set()
    for number, line in enumerate(text.splitlines(), start=1):
        for label in LABEL.findall(line):
            here = [scope for scope in around if scope[0] <= number <= scope[1]]
            found.add((label, f"{name}: {here[-1][2] if here else 'module'}"))
    return found


CITED = {
    citation
    for path in sorted(SOURCE.rglob("*.py"))
    for citation in citations(path.read_text(encoding="utf-8"), path.relative_to(SOURCE).as_posix())
}


def test_the_code_cites_the_paper():
    assert len(CITED) > 10


def test_every_citation_is_listed_with_its_place():
    missing = CITED - listed("From the paper")
    assert not missing, f"add to the table of docs/equations.md: {sorted(missing)}"


def test_everything_listed_is_cited_there():
    stale = listed("From the paper") - CITED
    assert not stale, f"no longer cited there, correct docs/equations.md: {sorted(stale)}"


def test_every_row_has_a_formula():
    assert all(
        len(cells) == 3 and cells[1] for heading in ("From the paper", "Checked as theorems") for cells in rows(heading)
    )


def test_no_label_is_listed_twice():
    labels = [label for cells in rows("From the paper") for label in quoted(cells[0])]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize(("label", "path"), sorted(listed("Checked as theorems")))
def test_a_theorem_is_cited_where_it_is_checked(label, path):
    assert label in LABEL.findall((ROOT / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", ["src", "tests", "docs", "examples", "benchmarks"])
def test_every_label_exists_in_the_paper(folder):
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md") and path != Path(__file__)]
    unknown = {label for path in files for label in LABEL.findall(path.read_text(encoding="utf-8"))} - PAPER
    assert not unknown


def test_places_that_are_named_exist():
    """`file.function` in the derivations leads to a definition."""
    named = re.findall(r"`(divergences|budgets|points|solvers|outcomes|weighing|envelope)\.(\w+)`", PAGE)
    assert named
    for module, function in named:
        tree = ast.parse((SOURCE / "core" / f"{module}.py").read_text(encoding="utf-8"))
        assert function in {name for _, _, name in scopes(tree)}, f"{module}.{function}"


def test_a_citation_is_found_in_its_scope():
    text = """
    # eq:G_f
    class A:
        # eq:G_KL
        def b(self):
            def c():
                return 0  # thm:duality
    """
    found = citations(dedent(text), "x.py")
    assert found == {("eq:G_f", "x.py: module"), ("eq:G_KL", "x.py: A"), ("thm:duality", "x.py: A.b")}
