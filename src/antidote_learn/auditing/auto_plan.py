"""The decision of the method `auto`: on which labels and with which models a run trains, by held-out evidence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from antidote_learn.auditing.cross_training import EPOCHS, collect_evidence, judging_batch_size, predict_halves
from antidote_learn.auditing.features import is_plain_table, neighbour_features, with_audit_features
from antidote_learn.auditing.judges import FEWEST_ROWS, MOST_CLASSES
from antidote_learn.auditing.neighbours import nearest_rows
from antidote_learn.auditing.pool_fitting import LINEAR, SMOOTH, TREES, FittedPool, fit_on_beliefs, fit_pool
from antidote_learn.auditing.progress_tellers import progress_teller
from antidote_learn.auditing.scores import LabelScores, score
from antidote_learn.core.beliefs import Beliefs, blocks
from antidote_learn.data.encoding import FeatureEncoding, SparseRows
from antidote_learn.data.prepared import Prepared
from antidote_learn.models import default_model
from antidote_learn.models.fitted import Pool, build_fitted
from antidote_learn.registry import MethodSpec, parse_method
from antidote_learn.training.checkpoint import damage_told, read_tensors, restore_network, write_tensors
from antidote_learn.training.context import tensors_under
from antidote_learn.training.estimation import estimate_rate
from antidote_learn.training.loop import Trainer
from antidote_learn.training.plans import TrainingPlan
from antidote_learn.training.relabel import SURE

PLAN = "plan.safetensors"  # the file of what was decided, in the folder of checkpoints
UNSURE = "antidote-dataset"  # the method for the given labels, where the beliefs are too unsure to train on
MOST_COLUMNS = 200  # the most columns of numbers that are taken for a table: the smallest usual embeddings have 256
LEAST_SHARE = 0.02  # the least share of a network in the pool at which it is trained

Floats = NDArray[np.float64]


def decide_training(models: str, trainer: Trainer, folder: Path) -> TrainingPlan:
    """Decides how to train, or reads what was decided before.

    Args:
        models: The models that may take part: "all", "linear", "trees" or "network".
        trainer: The trainer of the run, with the given labels.
        folder: The run's folder, which keeps the decision.
    """
    file = folder / "checkpoint" / PLAN
    if not file.exists():
        start = time.perf_counter()
        found = _decide(models, trainer, folder)
        if trainer.engine.rank == 0:
            tensors, state = found.stored
            write_tensors(file, tensors, {**state, "seconds": time.perf_counter() - start})
        trainer.engine.barrier()
    return _restore_plan(file, trainer)


@dataclass(frozen=True, eq=False)
class _Decision:
    """What was decided.

    Attributes:
        method: The method of the network.
        beliefs: What is believed of the labels; None where they are trained on as they are.
        names: The classifiers in the pool.
        modules: The same as modules.
        weights: (J + 1,) their weights, and that of the network; empty where the network is alone.
        rate: The record of the estimated noise rate.
        errors: (K,) how often each true class is called another, as far as that is used.
        held_out_loss: The mean of -log of what the pool says of the given labels of held-out rows.
    """

    method: str
    beliefs: Beliefs | None
    names: Sequence[str]
    modules: Sequence[nn.Module]
    weights: Floats
    rate: dict[str, Any]
    errors: Floats
    held_out_loss: float

    @property
    def stored(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """The tensors and the JSON value of the decision."""
        tensors = {
            f"member{number}.{name}": tensor
            for number, module in enumerate(self.modules)
            for name, tensor in module.state_dict().items()
        }
        if self.beliefs is not None:
            tensors["classes"] = torch.from_numpy(self.beliefs.classes)
            tensors["probs"] = torch.from_numpy(self.beliefs.probs)
        state = {
            "method": self.method,
            "names": list(self.names),
            "modules": [str(module.name) for module in self.modules],
            "weights": self.weights.tolist(),
            "rate": self.rate,
            "errors": self.errors.tolist(),
            "held_out_loss": self.held_out_loss,
        }
        return tensors, state


def _restore_plan(file: Path, trainer: Trainer) -> TrainingPlan:
    tensors, state = read_tensors(file)
    data = trainer.data
    with damage_told(file):
        modules = []
        for number, name in enumerate(state["modules"]):
            module = build_fitted(name, shape=data.encoding.shape, classes=trainer.classes)
            restore_network(module, tensors_under(f"member{number}.", tensors), "", file)
            modules.append(module.to(trainer.engine.device).eval())
        weights = [float(weight) for weight in state["weights"]]
        beliefs = _read_beliefs(tensors, trainer)
        spec = parse_method(str(state["method"]))
    decision = {
        "trained_on": "the given labels" if beliefs is None else "beliefs",
        "relabelled": 0 if beliefs is None else int((beliefs.classes[:, 0] != data.labels).sum()),
        "models": dict(zip([*state["names"], "network"], weights or [1.0], strict=True)),
        "errors_by_class": dict(zip(data.classes, state["errors"], strict=True)),
        "held_out_loss": float(state["held_out_loss"]),
        "seconds": float(state["seconds"]),
    }
    own = data if beliefs is None else replace(data, soft=beliefs)
    return _plan_of(own, spec, state["rate"], modules, weights, decision)


def _plan_of(
    data: Prepared,
    method: MethodSpec,
    rate: dict[str, Any],
    modules: list[nn.Module],
    weights: list[float],
    decision: dict[str, Any],
) -> TrainingPlan:
    """The plan of a pool: with a network that is still to be trained, or without one where it would hardly count."""
    if not modules:
        return TrainingPlan(data, method, rate, decision=decision)
    if weights[-1] < LEAST_SHARE * sum(weights):
        return TrainingPlan(data, method, rate, model=Pool(modules, weights[:-1]), decision=decision)
    return TrainingPlan(data, method, rate, lambda net: Pool([*modules, net], weights), decision=decision)


def _read_beliefs(tensors: dict[str, torch.Tensor], trainer: Trainer) -> Beliefs | None:
    if "classes" not in tensors:
        return None
    found = Beliefs(tensors["classes"].numpy(), tensors["probs"].numpy(), trainer.classes)
    if len(found) != trainer.samples or found.classes.min() < 0 or found.classes.max() >= trainer.classes:
        raise ValueError(f"it holds beliefs of {len(found)} rows, the data have {trainer.samples}")
    return found


def _decide(models: str, trainer: Trainer, folder: Path) -> _Decision:
    data, count = trainer.data, trainer.classes
    judge = _judging_trainer(trainer)
    rate = estimate_rate(judge, folder)
    if models != "network" and _suits_trees(data):
        return _decide_table(models, trainer, judge, rate, folder)
    evidence = collect_evidence(judge, folder, rate=rate["rate"], epochs=EPOCHS)
    around = nearest_rows(neighbour_features(judge.data), progress_teller(trainer.reporter, "nearest rows"))
    scores = score(
        data.labels,
        count,
        said=(evidence.held_out,),
        around=around,
        trained_on=evidence.in_training,
        trust=evidence.in_training.of(data.labels),
        tell=progress_teller(trainer.reporter, "scores"),
    )
    return _decide_beliefs(models, trainer, scores, evidence.held_out, rate)


def _suits_trees(data: Prepared) -> bool:
    """Whether the rows are columns that trees can read, and enough of them; embeddings and pixels have more columns."""
    few = isinstance(data.encoding, FeatureEncoding) and data.encoding.shape[0] <= MOST_COLUMNS
    enough = len(data.labels) >= FEWEST_ROWS and len(data.classes) <= MOST_CLASSES
    return enough and (few or is_plain_table(data.encoding))


def _decide_table(models: str, trainer: Trainer, judge: Trainer, rate: dict[str, Any], folder: Path) -> _Decision:
    """Lets classifiers of several kinds judge, and the network's halves among them."""
    data, count = trainer.data, trainer.classes
    network = None
    if models == "all":
        said = predict_halves(judge, folder, rate=rate["rate"], epochs=EPOCHS)
        network = said.dense(np.arange(len(said)))
    found = fit_pool(
        _network_rows(data),
        data.labels,
        count,
        names={"all": LINEAR + TREES, "linear": LINEAR, "trees": TREES}[models],
        network=network,
        seed=trainer.settings.seed,
        tell=progress_teller(trainer.reporter, "models of several kinds"),
    )
    return _decision_of(found, data, rate, with_network=network is not None)


def _decide_beliefs(
    models: str, trainer: Trainer, scores: LabelScores, held_out: Beliefs, rate: dict[str, Any]
) -> _Decision:
    """Trains on what an audit believes, unless it believes all labels, or is too unsure."""
    data, count, whole = trainer.data, trainer.classes, scores.posterior
    if float(whole.probs[:, 0].mean()) < SURE:
        return _network_alone(f"{UNSURE}:noise_rate={rate['rate']}", None, scores, held_out, data, rate)
    believed = None if bool((scores.quality >= 0.5).all()) else whole
    if models == "network" or len(data.encoding.shape) != 1 or count > MOST_CLASSES:
        return _network_alone("ce", believed, scores, held_out, data, rate)
    beliefs = np.eye(count)[data.labels] if believed is None else whole.dense(np.arange(len(whole)))
    found = fit_on_beliefs(
        _network_rows(data),
        data.labels,
        beliefs,
        names=SMOOTH,
        network=held_out.dense(np.arange(len(held_out))) if models != "linear" else None,
        transition=scores.transition,
        seed=trainer.settings.seed,
        tell=progress_teller(trainer.reporter, "linear model"),
    )
    return _decision_of(found, data, rate, with_network=models != "linear")


def _decision_of(found: FittedPool, data: Prepared, rate: dict[str, Any], *, with_network: bool) -> _Decision:
    labels, count = data.labels, found.beliefs.shape[1]
    beliefs = Beliefs.blank(len(labels), count)
    for rows in blocks(len(labels), count):
        beliefs.put(rows, found.beliefs[rows], labels[rows])
    is_given = bool((beliefs.of(labels) == 1.0).all())
    weights = found.weights if with_network else np.append(found.weights, 0.0)
    loss = -np.log(np.maximum(found.held_out[np.arange(len(labels)), labels], 1e-12)).mean()
    own = None if is_given else beliefs
    return _Decision("ce", own, found.names, found.modules, weights, rate, found.errors, float(loss))


def _network_alone(
    method: str, beliefs: Beliefs | None, scores: LabelScores, held_out: Beliefs, data: Prepared, rate: dict[str, Any]
) -> _Decision:
    loss = -np.log(np.maximum(held_out.of(data.labels), 1e-12)).mean()
    return _Decision(method, beliefs, (), (), np.empty(0), rate, scores.transition.errors, float(loss))


def _judging_trainer(trainer: Trainer) -> Trainer:
    """The trainer of the short trainings, on the features that an audit reads."""
    data = with_audit_features(trainer.data, trainer.settings.seed)
    shape = tuple(data.rows.take(np.arange(1)).shape[1:])
    network = trainer.network if shape == tuple(trainer.data.encoding.shape) else default_model(shape)
    settings = replace(trainer.settings, batch_size=judging_batch_size(trainer.samples))
    return Trainer(trainer.engine, data, settings, trainer.reporter, network=network, workers=trainer.workers)


def _network_rows(data: Prepared) -> Any:
    """All rows as the network reads them, (N, D) float32; sparse where they are."""
    if isinstance(data.rows, SparseRows):
        return data.rows.matrix
    found = data.preparation(data.rows.take(np.arange(len(data.rows))))
    return found.flatten(1).numpy()
