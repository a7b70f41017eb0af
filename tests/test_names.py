"""Names that say what they do, read from the source without running it: `python -m tests.test_names` prints the counts.

A function that acts is a verb with its object, one that computes is the noun it gives; neither is a participle. A name
stands for one thing: no function or class has its name in two modules, no module its name in two parts.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "antidote_learn"
MOST_PARTICIPLES = 0.03  # of all functions
MOST_PARAMETERS = 12
PARTICIPLES = {"made", "shown", "given", "written", "kept", "held", "found", "drawn", "chosen", "seen"}
# Words in -ed that are no participles, and what they are.
NOUNS_AND_VERBS = {"seed": "noun", "need": "verb", "embed": "verb", "feed": "verb", "shed": "verb"}
# Functions that take everything a user may say, once; what they call takes a record.
LONG = {"training.runs.train", "auditing.audits.audit"}
# Names that are one contract, kept by each of the modules named.
CONTRACTS = {
    "train": "a function and the command that calls it",
    "audit": "a function and the command that calls it",
}


class Function(NamedTuple):
    module: str
    name: str
    is_top: bool
    parameters: int


def functions() -> Iterator[Function]:
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        top = set(map(id, tree.body))
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                arguments = node.args
                names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
                count = len([name for name in names if name not in ("self", "cls")])
                yield Function(module, node.name, id(node) in top, count)


def is_participle(name: str) -> bool:
    first = name.strip("_").split("_")[0]
    return first in PARTICIPLES or (first.endswith("ed") and first not in NOUNS_AND_VERBS)


def participles() -> list[str]:
    return [f"{found.module}.{found.name}" for found in functions() if is_participle(found.name)]


def names_in_two_modules() -> dict[str, list[str]]:
    """Names of functions and classes at the top of more than one module."""
    places = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("__"):
                places[node.name].add(module)
    return {name: sorted(where) for name, where in places.items() if len(where) > 1 and name not in CONTRACTS}


def modules_of_one_name() -> dict[str, list[str]]:
    places = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        if not path.stem.startswith("__"):
            places[path.stem].append(str(path.relative_to(SOURCE)))
    return {name: where for name, where in places.items() if len(where) > 1}


def long_functions() -> list[str]:
    return [
        f"{found.module}.{found.name} ({found.parameters})"
        for found in functions()
        if found.parameters > MOST_PARAMETERS
        and f"{found.module}.{found.name}" not in LONG
        and not found.module.startswith("cli.")
    ]


def test_few_functions_are_named_by_a_participle() -> None:
    share = len(participles()) / len(list(functions()))
    assert share < MOST_PARTICIPLES, participles()


def test_no_name_stands_in_two_modules() -> None:
    assert names_in_two_modules() == {}


def test_no_two_modules_have_one_name() -> None:
    assert modules_of_one_name() == {}


def test_no_function_takes_more_than_a_dozen_parameters() -> None:
    assert long_functions() == []


def main() -> None:
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    found = [name for name in participles() if name.startswith(only)]
    total = sum(function.module.startswith(only) for function in functions())
    sys.stdout.write(f"{len(found)} of {total} functions are named by a participle:\n  " + "\n  ".join(found) + "\n")
    twice = {name: where for name, where in names_in_two_modules().items() if any(w.startswith(only) for w in where)}
    sys.stdout.write(f"{len(twice)} names stand in two modules:\n")
    for name, where in twice.items():
        sys.stdout.write(f"  {name}: {', '.join(where)}\n")
    sys.stdout.write(f"modules of one name: {modules_of_one_name()}\nlong functions: {long_functions()}\n")


if __name__ == "__main__":
    main()
