"""A finished run as it is read back: the model with its preprocessing, the samples and the metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from antidote_learn._types import ImageFiles
from antidote_learn.core.transition_matrices import TransitionEstimate
from antidote_learn.data.encoding import ImageEncoding, TableEncoding, encoding_from_state
from antidote_learn.data.inputs import as_inputs
from antidote_learn.data.loaders import preparation_of
from antidote_learn.data.recipes import Augmentation
from antidote_learn.models import Model, build_model, is_built_in
from antidote_learn.models.ensembles import COMBINATIONS, Ensemble
from antidote_learn.models.fitted import NETWORK, Pool, build_fitted
from antidote_learn.training.checkpoint import (
    FORMAT,
    damage_told,
    digest,
    read_json,
    read_rows,
    read_tensors,
    restore_network,
    write_sealed,
    write_tensors,
)
from antidote_learn.training.engine import Engine
from antidote_learn.training.evaluate import outputs
from antidote_learn.training.specs import read_spec
from antidote_learn.training.transition_file import read_transition

if TYPE_CHECKING:
    from antidote_learn.data.prepared import Prepared
    from antidote_learn.training.specs import Spec

WHICH = ("last", "best")  # the epochs whose models are kept
SNAPSHOTS = "snapshots"  # the folder of the samples' tables after some epochs
PREPROCESSING = "preprocessing"  # the name of the preprocessing's file, without its suffix
MOST_MEMBERS = 100  # the most networks of one model: a number from a file must not fill the memory


def write_model(folder: Path, spec: Spec, data: Prepared, model: nn.Module) -> None:
    """Writes model.json and the preprocessing, beside the weights that are there already."""
    meta, arrays = data.encoding.state()
    write_tensors(folder / f"{PREPROCESSING}.safetensors", {k: torch.from_numpy(v) for k, v in arrays.items()}, meta)
    names = (*WHICH, PREPROCESSING)
    write_sealed(
        folder / "model.json",
        {
            "format": FORMAT,
            "model": spec.settings.model,
            "shape": list(data.encoding.shape),
            "classes": list(data.classes),
            "sha256": {name: digest(folder / f"{name}.safetensors") for name in names},
            **({"members": len(model.members), "combine": model.combine} if isinstance(model, Ensemble) else {}),
            **({"pool": model.names} if isinstance(model, Pool) else {}),
        },
    )


class Run:
    """A finished run.

    Attributes:
        folder: The run's folder.
        classes: The class names, in the order of the probabilities.
        summary: The summary that the command line prints as JSON.
        spec: The settings that determined the run, as spec.json holds them.
    """

    def __init__(self, folder: Path, net: nn.Module, card: dict[str, Any], encoding: Any) -> None:
        self.folder, self.classes = folder, tuple(card["classes"])
        self.spec = read_spec(folder)[0]
        self.summary = read_json(folder / "summary.json", {"accuracy": dict, "method": str, "data": str})
        self._net, self._encoding = net.eval(), encoding
        self._preparation = preparation_of(encoding, Augmentation())

    @classmethod
    def read(cls, folder: Path, *, which: str, model: Model | None) -> Run:
        """Reads a finished run (see `antidote_learn.load`)."""
        if which not in WHICH:
            raise ValueError(f"which must be one of {', '.join(WHICH)}; got {which!r}")
        if not (folder / "spec.json").is_file():
            raise FileNotFoundError(f"{folder} is no run's folder: it holds no spec.json")
        if not (folder / "done").exists():
            raise ValueError(f"the run in {folder} is not finished: continue it with `resume=True`")
        card = _card(folder / "model")
        encoding = encoding_from_state(*_preprocessing(folder / "model", card))
        net = _network(card, model)
        weights, _ = _check_card(folder / "model", which, card)
        restore_network(net, weights, "", folder / "model" / f"{which}.safetensors")
        return cls(folder, net, card, encoding)

    @property
    def strings(self) -> tuple[str, ...]:
        """The columns of a table that hold names or text, whose cells are read as they are written."""
        return self._encoding.strings if isinstance(self._encoding, TableEncoding) else ()

    @property
    def image(self) -> str:
        """The column of a table that holds paths of image files; empty where training had no such table."""
        return self._encoding.column if isinstance(self._encoding, ImageEncoding) else ""

    @property
    def metrics(self) -> pd.DataFrame:
        """The metrics of the training, a row for each epoch."""
        path = self.folder / "metrics.jsonl"
        with damage_told(path):
            return pd.DataFrame([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])

    @property
    def samples(self) -> pd.DataFrame:
        """The training samples, a row for each: labels, probability of the given label, loss, weight, forgotten."""
        return read_rows(self.folder / "samples.parquet", ("index", "given_label", "loss", "weight"))

    @property
    def transition(self) -> TransitionEstimate | None:
        """The transition matrix that the method estimated or learned; None for a method without one."""
        return read_transition(self.folder, self.classes).estimate if "transition" in self.summary else None

    @property
    def snapshots(self) -> dict[int, pd.DataFrame]:
        """The training samples after the epochs that `train` was asked to keep, by epoch."""
        epochs = [int(epoch) for epoch in str(self.spec.get("snapshots", "")).split(",") if epoch]
        folder = self.folder / SNAPSHOTS
        return {
            epoch: read_rows(folder / f"epoch{epoch:04d}.parquet", ("index", "given_label", "loss", "weight"))
            for epoch in epochs
        }

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """The probabilities (N, K) for inputs like those of training: a table, an array, images or image files."""
        inputs = X if isinstance(X, ImageFiles) else as_inputs(X)
        engine = Engine()
        net = self._net.to(engine.device)
        logits = outputs(net, self._encoding.encode(inputs), self._preparation, engine, workers=2)
        return logits.softmax(dim=1).numpy()

    def predict(self, X: Any) -> NDArray[np.str_]:
        """The name (N,) of the likeliest class of each input."""
        names: NDArray[np.str_] = np.array(self.classes)[self.predict_proba(X).argmax(axis=1)]
        return names

    def __repr__(self) -> str:
        """The folder, method, data and last figure of the run in one line."""
        figure = self.summary["accuracy"]
        return f"Run({str(self.folder)!r}: {self.summary['method']} on {self.summary['data']}, {figure['last']:.1f} %)"


def _card(folder: Path) -> dict[str, Any]:
    path = folder / "model.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: the model folder is incomplete; restore it, or train anew")
    card = read_json(path, {"format": int, "model": str, "shape": list, "classes": list, "sha256": dict})
    if card["format"] != FORMAT:
        raise ValueError(f"{path} has format {card['format']!r}, known is {FORMAT}: use the package that made it")
    with damage_told(path):
        if not all(type(side) is int and side > 0 for side in card["shape"]):
            raise ValueError(f"'shape' is {card['shape']}")
        if len(card["classes"]) < 2 or not all(isinstance(name, str) for name in card["classes"]):
            raise ValueError("'classes' are no names")
        if "members" in card and (type(card["members"]) is not int or not 2 <= card["members"] <= MOST_MEMBERS):
            raise ValueError(f"'members' is {card['members']!r}")
        if "pool" in card and not (isinstance(card["pool"], list) and 0 < len(card["pool"]) <= MOST_MEMBERS):
            raise ValueError(f"'pool' is {card['pool']!r}")
        if card.get("combine", COMBINATIONS[0]) not in COMBINATIONS or ("combine" in card) != ("members" in card):
            raise ValueError(f"'combine' is {card.get('combine')!r}")
    return card


def _check_card(folder: Path, name: str, card: dict[str, Any]) -> tuple[dict[str, Tensor], Any]:
    """Reads a file of the model; ValueError where its digest is not the one in model.json."""
    path = folder / f"{name}.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: the model folder is incomplete; restore it, or train anew")
    if digest(path) != card["sha256"].get(name):
        raise ValueError(f"{path} was changed or cut short since the run wrote it; restore it, or train anew")
    return read_tensors(path)


def _preprocessing(folder: Path, card: dict[str, Any]) -> tuple[Any, dict[str, NDArray[Any]]]:
    tensors, meta = _check_card(folder, PREPROCESSING, card)
    return meta, {name: tensor.numpy() for name, tensor in tensors.items()}


def _network(card: dict[str, Any], model: Model | None) -> nn.Module:
    """Builds the caller's network, or one of the package; other code that a file names is never imported."""
    if model is None and not is_built_in(card["model"]):
        raise ValueError(
            f"the run was trained with the network {card['model']!r}, which is not one of the package; code that a "
            "run's folder names is not executed: hand the network over as `model`, 'package.module:factory'"
        )
    shape, classes = tuple(card["shape"]), len(card["classes"])
    if "pool" in card:
        return _pool(card, model, shape, classes)
    members = [
        build_model(card["model"] if model is None else model, shape=shape, classes=classes, seed=0)
        for _ in range(card.get("members", 1))
    ]
    return Ensemble(members, combine=card["combine"]) if "members" in card else members[0]


def _pool(card: dict[str, Any], model: Model | None, shape: tuple[int, ...], classes: int) -> Pool:
    """Builds an empty pool of fitted models, with a network among them where there was one."""
    spec = card["model"] if model is None else model
    members = [
        build_model(spec, shape=shape, classes=classes, seed=0)
        if name == NETWORK
        else build_fitted(str(name), shape=shape, classes=classes)
        for name in card["pool"]
    ]
    return Pool(members, [0.0] * len(members))
