"""The grammar of noise, ``kind:rate:parameter=value:...``, with every kind and its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from antidote_learn.data.maps import COUNTS, MAPS


@dataclass(frozen=True)
class NoiseKind:
    """A kind of noise: its usage, a line about it, and the values of its parameters, the default first.

    A parameter without values takes any text, and is empty by default.
    """

    usage: str
    about: str
    params: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


KINDS: dict[str, NoiseKind] = {
    "none": NoiseKind("none", "the labels as they are"),
    "symmetric": NoiseKind(
        "symmetric:R",
        "a share R of each class gets any other class (inclusive: any class, the true one included)",
        {"mode": ("exclusive", "inclusive"), "count": COUNTS},
    ),
    "asymmetric": NoiseKind(
        "asymmetric:R",
        "a share R of each class gets the class it is mistaken for: the data set's published map, else the next class",
        {"map": ("auto", *MAPS, "pair"), "count": COUNTS, "sequential": ("false", "true")},
    ),
    "pair": NoiseKind("pair:R", "a share R of each class gets the next class", {"count": COUNTS}),
    "one-sided": NoiseKind(
        "one-sided:R",
        "a share R of one class, the rarest or class=NAME, gets any other class; all other labels stay",
        {"class": (), "count": COUNTS},
    ),
    "instance": NoiseKind(
        "instance:R",
        "each sample has its own rate, from N(R, 0.1^2), and its own targets, from a random linear map",
        {"mode": ("per-sample", "dependent")},
    ),
    "adversarial": NoiseKind("adversarial:R", "a poisoner: the share R nearest to another class gets that class"),
    "human": NoiseKind("human:NAME", "labels by people: built-in cifar10 and cifar100"),
}
"""Every kind of noise, for listings and for the messages of `parse_noise`."""

HUMAN = ("aggregate", "random1", "random2", "random3", "worse", "noisy")
"""Names of human labels; the first five are of CIFAR-10, the last is of CIFAR-100."""


@dataclass(frozen=True)
class NoiseSpec:
    """A parsed description of noise; ``params`` holds every parameter of the kind, defaults included."""

    kind: str
    rate: float = 0.0
    params: Mapping[str, str] = field(default_factory=dict)


def parse_noise(spec: str) -> NoiseSpec:
    """Parse a description of noise, ``kind:rate:parameter=value:...``, without drawing anything.

    Raises:
        ValueError: The text describes no noise; the message lists the accepted ones.

    Example:
        >>> parse_noise("symmetric:0.4:count=iid")
        NoiseSpec(kind='symmetric', rate=0.4, params={'mode': 'exclusive', 'count': 'iid'})
    """
    name, *rest = spec.strip().split(":")
    if name not in KINDS:
        raise ValueError(f"unknown noise {spec!r}: accepted are {', '.join(kind.usage for kind in KINDS.values())}")
    if name == "none":
        if rest:
            raise ValueError(f"noise {spec!r} is not known: none takes neither rate nor parameters, write just none")
        return NoiseSpec("none")
    if name == "human":
        if len(rest) != 1 or rest[0] not in HUMAN:
            raise ValueError(f"noise {spec!r} is not known: human:NAME takes one name of {', '.join(HUMAN)}")
        return NoiseSpec("human", params={"name": rest[0]})
    return NoiseSpec(name, _parse_noise_rate(spec, name, rest[:1]), _parse_params(spec, KINDS[name], rest[1:]))


def _parse_noise_rate(spec: str, name: str, text: list[str]) -> float:
    try:
        rate = float(text[0])
    except (IndexError, ValueError):
        rate = math.nan
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"noise {spec!r} needs a rate in [0, 1] after its name: {name}:0.4 for 40 % wrong labels")
    return rate


def _parse_params(spec: str, kind: NoiseKind, texts: list[str]) -> dict[str, str]:
    params = {key: values[0] if values else "" for key, values in kind.params.items()}
    given = [text.partition("=")[::2] for text in texts]
    for key, value in given:
        values = kind.params.get(key)
        if values is None or not value or (values and value not in values):
            known = [f"{name}={'|'.join(some) or 'NAME'}" for name, some in kind.params.items()]
            accepted = "; ".join(known) or "no parameters"
            raise ValueError(f"noise {spec!r} has an unknown parameter {f'{key}={value}'!r}: accepted are {accepted}")
        params[key] = value
    if len(dict(given)) < len(given):
        raise ValueError(f"noise {spec!r} gives a parameter twice: keep one")
    return params
