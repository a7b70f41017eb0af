"""Prints the lowest version that pyproject.toml allows of each dependency, as pins for pip."""

import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def main() -> None:
    dependencies = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    print(*(dependency.split(",")[0].replace(">=", "==") for dependency in dependencies), sep="\n")


if __name__ == "__main__":
    main()
