"""Second step of a run: it reads the data, and settles the settings and the network; nothing is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from antidote_learn._types import Arrays
from antidote_learn.data.load import open_data
from antidote_learn.data.posterior import Posterior
from antidote_learn.data.prepared import Prepared, fingerprint, prepare
from antidote_learn.models import check_model, default_model
from antidote_learn.presets.aliases import stand_in_note
from antidote_learn.presets.protocols import TrainingSettings
from antidote_learn.registry import MethodSpec, check_method
from antidote_learn.training.given_transitions import wire_transition
from antidote_learn.training.job import Job
from antidote_learn.training.progress import Reporter, Silent
from antidote_learn.training.relabel import SURE, read_beliefs, relabel_rows
from antidote_learn.training.resolve import FOLDERS, Request, ResolvedRequest, method_for, parse_snapshots
from antidote_learn.training.settings import settings_for
from antidote_learn.training.specs import Spec, columns_of

SMALLEST_BATCH = 16  # the smallest batch by default: a smaller one makes batch norm noisy
FEWEST_ROWS = 10  # the fewest samples that are trained on
UNSURE = "antidote-dataset"  # the method for the given labels, where an audit is too unsure to train on its beliefs
OWN = (
    "subset",
    "holdout",
    "noise",
    "augment",
    "devices",
    "nodes",
    "precision",
    "text_features",
)  # fields of `Request` and `Spec`


def open_request(asked: Any, *, test: str | Path | None = None) -> Arrays:
    """Reads the data that a `Request` names, or a record with the same fields."""
    return open_data(
        asked.data,
        test=test,
        root=asked.data_root,
        download=asked.download,
        strict=asked.strict,
        **asked.columns,
    )


def choose_network(
    model: str | nn.Module | None, settings: TrainingSettings, *, shape: tuple[int, ...], classes: int
) -> tuple[str | nn.Module, TrainingSettings]:
    """Chooses the user's network or the protocol's, checks it against the data, and puts its name in the settings."""
    network = model or (default_model(shape) if settings.model == "auto" else settings.model)
    check_model(network, shape=shape, classes=classes)
    name = network if isinstance(network, str) else f"{type(network).__name__} object"
    return network, replace(settings, model=name)


def prepare_run(resolved: ResolvedRequest) -> Job:
    """Reads the data, and settles everything that determines the run.

    Raises:
        ValueError: Bad data.
        FileNotFoundError: Missing data.
    """
    asked, reporter = resolved.asked, resolved.asked.reporter or Silent()
    method, posterior, digest = _choose_labels(resolved, reporter)
    arrays = open_request(asked, test=asked.test)
    settings = settings_for(asked.protocol, arrays, resolved.settings, seed=asked.seed)
    data, note = _prepare_data(asked, arrays, settings, reporter), _preset_note(asked)
    method, data_hash = _with_injected(method, data.noise), fingerprint(data)
    method, text = wire_transition(method, data)
    if posterior is not None:
        data = _relabel(data, posterior, soft=asked.method is None, reporter=reporter)
    data = replace(data, notes=(*data.notes, *([note] if note else [])))
    settings = replace(settings, batch_size=_batch_size(asked, settings, len(data.labels)))
    check_method(method, epochs=settings.epochs)
    snapshots = parse_snapshots(asked.snapshots)
    if snapshots and snapshots[-1] > settings.epochs:
        raise ValueError(f"snapshots must be epochs up to {settings.epochs}, the last one; got {snapshots[-1]}")
    network, settings = choose_network(asked.model, settings, shape=data.encoding.shape, classes=len(data.classes))
    spec = Spec(
        data=asked.data_name or data.name,
        data_hash=data_hash,
        classes=len(data.classes),
        samples=len(data.labels),
        noise_seed=asked.own_noise_seed,
        method=text,
        settings=settings,
        labels=digest,
        preset_note=note,
        snapshots=",".join(map(str, snapshots)),
        **columns_of(asked, data.label),
        **{name: getattr(asked, name) for name in OWN},
    )
    folder = (Path(asked.out) if asked.out is not None else _default_folder(spec)).absolute()
    return Job(folder, spec, data, method, network, asked.workers, reporter)


def _preset_note(asked: Request) -> str:
    """A sentence for a preset without published values for the data or noise at hand; else ""."""
    name = asked.method if isinstance(asked.method, str) else ""
    return stand_in_note(name, data=asked.data_name, noise=asked.noise)


def _choose_labels(resolved: ResolvedRequest, reporter: Reporter) -> tuple[MethodSpec, Posterior | None, str]:
    """Returns the method, an audit's beliefs if they are trained on, and the digest of an audit that is given."""
    asked = resolved.asked
    if asked.labels is None:
        return resolved.method, None, ""
    posterior, digest = read_beliefs(Path(asked.labels))
    if asked.method is None and posterior.sureness < SURE:
        reporter.note(
            "the audit is not sure enough of this data to train on it (its likeliest classes have a mean probability "
            f"of {posterior.sureness:.2f}, below {SURE}): training on the given labels with {UNSURE} instead"
        )
        return method_for(asked, default=UNSURE), None, digest
    return method_for(asked, default="ce"), posterior, digest


def _prepare_data(asked: Request, arrays: Arrays, settings: TrainingSettings, reporter: Reporter) -> Prepared:
    if asked.text_features == "embeddings":
        reporter.note(
            f"the texts of {len(arrays.labels)} samples are being embedded, which takes a minute or so for 10 000"
        )
    if len(arrays.labels) < FEWEST_ROWS:
        raise ValueError(f"at least {FEWEST_ROWS} samples are needed to train on; received {len(arrays.labels)}")
    return prepare(
        arrays,
        noise=asked.noise,
        noise_seed=asked.own_noise_seed,
        seed=asked.seed,
        subset=asked.subset,
        hold_out=True if asked.holdout is None else float(asked.holdout),
        recipe=settings.recipe,
        text_features=asked.text_features,
        augment=asked.augment,
        root=asked.data_root,
        workers=asked.workers,
    )


def _relabel(prepared: Prepared, posterior: Posterior, *, soft: bool, reporter: Reporter) -> Prepared:
    believed = relabel_rows(prepared, posterior, soft=soft)
    if believed is prepared:
        reporter.note("the audit found no wrong label among the rows to train on: they are trained on as they are")
    return believed


def _batch_size(asked: Request, settings: TrainingSettings, samples: int) -> int:
    size = asked.batch_size or min(settings.batch_size, max(SMALLEST_BATCH, samples // 8))
    processes = asked.devices * asked.nodes
    if size < 2 * processes:
        raise ValueError(f"a batch of {size} is too small for {processes} processes: give each at least 2 samples")
    return size


def _with_injected(method: MethodSpec, noise: Any) -> MethodSpec:
    return method.with_rate(noise.rate) if method.rate == "injected" else method


def _default_folder(spec: Spec) -> Path:
    """The default folder of a run, named after its data, method, noise and seed."""
    words = [Path(spec.data).stem or "data", spec.method, spec.noise, f"seed{spec.settings.seed}"]
    name = "-".join(words).replace(":", "-").replace("=", "-")
    return Path(FOLDERS) / "".join(c for c in name if c.isalnum() or c in "-._")
