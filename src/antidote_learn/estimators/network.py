"""`AntidoteClassifier`: a network for tables of numbers, trained on labels of which some are wrong."""

from __future__ import annotations

import copy
import tempfile
import threading
import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from antidote_learn._types import Arrays
from antidote_learn.auditing.cross_training import RecordingMethod, judging_batch_size
from antidote_learn.auditing.scores import score
from antidote_learn.core.beliefs import Beliefs
from antidote_learn.core.divergences import KL, Divergence, divergence_of
from antidote_learn.data.loaders import Preparation
from antidote_learn.data.prepared import Prepared, prepare
from antidote_learn.estimators.devices import engine_on
from antidote_learn.estimators.targets import Floats, Integers, check_weights, issues_of_rows, number_classes
from antidote_learn.methods.one_network import OneNetwork
from antidote_learn.nn.antidote import AntidoteLoss
from antidote_learn.nn.dataset import DatasetAntidoteLoss
from antidote_learn.presets.protocols import TrainingSettings, protocols
from antidote_learn.training.engine import Engine
from antidote_learn.training.estimation import estimate_rate
from antidote_learn.training.evaluate import outputs, predict_logits
from antidote_learn.training.interrupts import Interrupted, gently
from antidote_learn.training.job import main_training
from antidote_learn.training.loop import Trainer
from antidote_learn.training.prepare import choose_network
from antidote_learn.training.progress import Silent

PROTOCOL = "features"  # the protocol whose settings are the defaults
_ALONE = threading.Lock()  # lets one thread train at a time, as all threads share torch's random state


class AntidoteClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network trained with ANTIDOTE, in the form of a scikit-learn classifier.

    The share of wrong labels is estimated first: two networks are trained on one half of the rows each, and judge the
    other half. A new network is then trained on all rows, of which it may forget that share: over the whole data set
    and within each class (`DatasetAntidoteLoss`), or in each batch if the divergence is not KL (`AntidoteLoss`).
    Columns are standardised.

    Args:
        module: The network: None for a perceptron with two hidden layers of 256 units and batch norm; a name such as
            "mlp:hidden=[64]"; a factory, which is called with those of the keywords ``shape`` (D,) and ``classes`` that
            it names; or an ``nn.Module``, of which a copy is trained. A network gives logits (B, K) for float32 (B, D).
        noise_rate: The share of wrong labels, in [0, 1), or "auto" to estimate it.
        kappa: The soft penalty on the divergence: a floor on the temperature.
        divergence: The divergence, a record or a name: "kl", "chi2", "alpha:1.5", "js", "hellinger".
        max_epochs: The number of epochs; the learning rate falls to a tenth for the last sixth of them.
        lr: The learning rate of SGD with momentum 0.9.
        batch_size: The number of rows in a batch; "auto" is a seventh of the rows, between 16 and 128.
        random_state: The seed or random state of the weights, the halves and the order.
        device: The device, "cpu", "cuda" or "mps"; "auto" takes the best there is.

    Attributes:
        module_: The trained network, on the host.
        classes_: (K,) the different labels, sorted.
        sample_weights_: (N,) weights of the rows in one relaxation over all rows after the training; near 0 where a
            label is not believed.
        label_quality_: (N,) probabilities that the labels are right, from predictions that the network made each time
            before it learned from a row.
        label_issues_: A table with the rows of X, in their order and with their index: ``is_label_issue``,
            ``label_quality``, ``given_label``, ``predicted_label``, ``predicted_probability``, ``reason``.
        noise_rate_: The share of wrong labels, as given or estimated.
        n_features_in_: The number of columns of X.
        feature_names_in_: The names of the columns of X, where they are strings.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> y[:5] = 2  # wrong
        >>> model = AntidoteClassifier(max_epochs=10, random_state=0).fit(X, y)
        >>> model.predict(X[:5]).tolist()
        [0, 0, 0, 0, 0]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "module": [str, nn.Module, callable, None],
        "noise_rate": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="left")],
        "kappa": [Interval(Real, 0, None, closed="left")],
        "divergence": [str, Divergence],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "device": [StrOptions({"auto", "cpu", "cuda", "mps"})],
    }

    def __init__(
        self,
        module: Any = None,
        *,
        noise_rate: float | str = "auto",
        kappa: float = 0.05,
        divergence: Any = "kl",
        max_epochs: int = 30,
        lr: float = 0.1,
        batch_size: int | str = "auto",
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.module = module
        self.noise_rate = noise_rate
        self.kappa = kappa
        self.divergence = divergence
        self.max_epochs = max_epochs
        self.lr = lr
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AntidoteClassifier:
        """Estimates the noise rate, unless it is given, and trains the network.

        Args:
            X: (N, D) numbers, an array or a table.
            y: (N,) labels.
            sample_weight: (N,) weights of the rows, the reference measure of the relaxation; a weight of 0 drops a row.
        """
        self._validate_params()
        numbers, y = validate_data(self, X, y, dtype=np.float32)
        self.classes_, labels = number_classes(y)
        measure, used = check_weights(sample_weight, numbers, labels)
        data = self._prepare_rows(numbers[used], labels[used])
        found = self._train_network(data, None if sample_weight is None else measure[used])
        for doubt in found.doubts:
            warnings.warn(doubt, UserWarning, stacklevel=2)
        self._encoding, self.module_, self.noise_rate_ = data.encoding, found.net, found.rate
        self.sample_weights_ = np.zeros(len(labels))
        self.sample_weights_[used] = found.weights * measure[used].mean()
        scores = score(labels, len(self.classes_), said=[self._of_all(numbers, found.said, used, labels)])
        self.label_quality_ = scores.quality
        self.label_issues_ = issues_of_rows(scores, labels, self.classes_, X)
        return self

    def _of_all(self, numbers: NDArray[np.float32], said: Beliefs, used: Integers, labels: Integers) -> Beliefs:
        """The predictions for all rows; absent rows are judged by the trained network, which did not see them."""
        if len(used) == len(labels):
            return said
        whole, absent = Beliefs.blank(len(labels), said.count), np.setdiff1d(np.arange(len(labels)), used)
        whole.classes[used], whole.probs[used] = said.classes, said.probs
        whole.put(absent, self._probabilities(numbers[absent]), labels[absent])
        return whole

    def _prepare_rows(self, numbers: NDArray[np.float32], labels: Integers) -> Prepared:
        arrays = Arrays("X", numbers, labels, tuple(map(str, self.classes_)))
        options: dict[str, Any] = {"noise": "none", "noise_seed": 0, "seed": 0, "subset": None, "recipe": "fitted"}
        return prepare(arrays, **options, hold_out=False)

    def _train_network(self, data: Prepared, measure: Floats | None) -> _Trained:
        """Trains in a temporary folder, and leaves torch's random state as it was."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        settings, engine = self._settings(data, seed), engine_on(self.device)
        devices = [engine.device] if engine.device.type == "cuda" else []
        with _ALONE, tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=devices), gently():
            network, settings = choose_network(
                self.module, settings, shape=(self.n_features_in_,), classes=len(self.classes_)
            )
            (Path(folder) / "checkpoint").mkdir()
            trainer = Trainer(engine, data, settings, Silent(), network=network)
            try:
                return engine.launch(_work, trainer, self, measure, Path(folder))  # type: ignore[no-any-return]
            except Interrupted:
                raise KeyboardInterrupt from None

    def _rate(self, trainer: Trainer, folder: Path) -> tuple[float, list[str]]:
        """The share of wrong labels, as given or estimated, and doubts about an estimate."""
        if self.noise_rate != "auto":
            return float(self.noise_rate), []
        estimate = estimate_rate(trainer, folder)
        return float(estimate["rate"]), estimate["warnings"]

    def _settings(self, data: Prepared, seed: int) -> TrainingSettings:
        size = judging_batch_size(len(data.labels))
        return replace(
            protocols()[PROTOCOL].settings,
            epochs=int(self.max_epochs),
            lr=float(self.lr),
            batch_size=size if self.batch_size == "auto" else int(self.batch_size),
            seed=seed,
        )

    def _objective(self, samples: int, rate: float) -> AntidoteLoss | DatasetAntidoteLoss:
        if divergence_of(self.divergence) is KL:
            return DatasetAntidoteLoss(samples, noise_rate=rate, kappa=self.kappa, process_group=None)
        return AntidoteLoss(noise_rate=rate, kappa=self.kappa, divergence=self.divergence, process_group=None)

    def predict(self, X: Any) -> NDArray[Any]:
        """The predicted labels (N,)."""
        probs = self.predict_proba(X)
        return np.asarray(self.classes_[probs.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Floats:
        """The probabilities (N, K) of ``classes_``."""
        check_is_fitted(self)
        return self._probabilities(validate_data(self, X, reset=False, dtype=np.float32))

    def _probabilities(self, numbers: NDArray[np.float32]) -> Floats:
        """The probabilities (N, K), in double precision if possible, so that a row is judged alike in any company."""
        engine = engine_on(self.device)
        kind = torch.float32 if engine.device.type == "mps" else torch.float64
        net = copy.deepcopy(self.module_).eval().to(engine.device, kind)
        logits = outputs(lambda rows: net(rows.to(kind)), self._encoding.encode(numbers), Preparation(), engine)
        found: Floats = logits.double().softmax(dim=1).numpy()
        return found


@dataclass(frozen=True, eq=False)
class _Trained:
    """The result of a training: the network, the rate, the rows' weights (N,) and predictions, and doubts."""

    net: nn.Module
    rate: float
    weights: Floats
    said: Beliefs
    doubts: list[str]


def _work(
    engine: Engine, trainer: Trainer, model: AntidoteClassifier, measure: Floats | None, folder: Path
) -> _Trained:
    """Estimates the rate, trains the network, and weighs the rows."""
    data = trainer.data
    rate, doubts = model._rate(trainer, folder)
    weight = None if measure is None else torch.from_numpy(measure / measure.mean()).float()
    method = OneNetwork(model._objective(trainer.samples, rate), weight)
    heard = RecordingMethod(method, data.labels, trainer.classes)
    progress = trainer.fit(main_training(trainer, folder), heard)
    heard.hearing.remove()
    labels = torch.from_numpy(data.labels)
    logits = predict_logits(progress.model, data, engine)
    solved = method.relax_all(F.cross_entropy(logits, labels, reduction="none"), labels)
    assert solved is not None  # both objectives relax
    return _Trained(progress.model.cpu(), rate, solved.weights.double().numpy(), heard.beliefs.mean, doubts)
