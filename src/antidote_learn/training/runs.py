"""`train` and `load`: a run is a folder that says everything about itself and gives the model back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from antidote_learn._types import Arrays
from antidote_learn.data.noise import parse_noise
from antidote_learn.data.opening import check_out, open_data
from antidote_learn.data.prepared import fingerprint, prepare
from antidote_learn.data.sentences import check_text_features
from antidote_learn.models import build_model, default_model
from antidote_learn.registry import (
    MethodSpec,
    Protocol,
    check_method,
    parse_method,
    protocols,
    resolved,
    with_budget,
)
from antidote_learn.training.checkpoint import locked
from antidote_learn.training.engine import PRECISIONS, Engine
from antidote_learn.training.folders import is_finished, make_folder
from antidote_learn.training.interrupts import gently
from antidote_learn.training.job import Job, work
from antidote_learn.training.loop import Settings
from antidote_learn.training.posterior import SURE, Posterior, audited, relabelled
from antidote_learn.training.progress import Reporter, Silent
from antidote_learn.training.protocols import check_positive, chosen_protocol
from antidote_learn.training.results import Run
from antidote_learn.training.specs import Spec, shared

SMALLEST_BATCH = 16
FOLDERS = "runs"  # where runs lie that are given no folder
ROOMS = ("checkpoint", "model")
UNSURE = "antidote-dataset"  # what the given labels are trained with where an audit is not sure of them


def train(
    data: str | Path | Arrays | Sequence[Any],
    *,
    method: str | None = None,
    labels: str | Path | None = None,
    noise_rate: float | str | None = "auto",
    delta: float | None = None,
    penalty: float | None = None,
    noise: str = "none",
    noise_seed: int | None = None,
    label: str | None = None,
    text: Sequence[str] = (),
    image: str | None = None,
    text_features: str = "tfidf",
    test: str | Path | None = None,
    subset: int | None = None,
    model: str | nn.Module | None = None,
    protocol: str | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    optimizer: str | None = None,
    weight_decay: float | None = None,
    schedule: str | None = None,
    warmup: float | None = None,
    clip: float | None = None,
    augment: bool = True,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    devices: int = 1,
    nodes: int = 1,
    precision: str = "32",
    workers: int = 2,
    data_root: str | Path | None = None,
    download: bool = False,
    strict: bool = False,
    reporter: Reporter | None = None,
) -> Run:
    """Trains a network on labels that cannot be trusted, and gives the run back.

    Args:
        data: A built-in name, a file, a folder of images by class, `Arrays`, or a pair (X, y).
        method: With parameters, as on the command line: "antidote" (the default), "ce", "antidote:divergence=chi2".
        labels: The folder of an audit of this data: its beliefs are trained on, with plain cross-entropy; or with a
            ``method`` its likeliest classes.
        noise_rate: The share of wrong labels; "auto" estimates it.
        delta: A budget instead.
        penalty: The price of the penalised variant instead.
        noise: Noise to add to the training labels: "symmetric:0.4".
        noise_seed: Of that noise; the run's seed by default.
        label: The label column of a table.
        text: Columns of a table that hold text.
        image: The column of a table that holds paths of image files, relative to the table; they are then the inputs.
        text_features: What text becomes: "tfidf", or "embeddings" of whole sentences (needs the extra ``text``).
        test: A test table or folder; without one a fifth of the samples is held out.
        subset: Train on so many samples, the first ones of a seeded permutation.
        model: A name with parameters, "package.module:factory", or an ``nn.Module``.
        protocol: A named set of the following; each of them overrides it.
        epochs: How often the data is seen.
        batch_size: Of the global batch, split over devices.
        lr: Initial learning rate.
        optimizer: "sgd" or "adamw".
        weight_decay: Of the optimiser.
        schedule: Of the learning rate: "constant", "cosine", "step:E1,E2", "exponential:F".
        warmup: Epochs over which the learning rate rises from 0.
        clip: Largest norm of the gradient; 0 for any.
        augment: Whether training images are cropped, mirrored and turned at random, as the protocol says.
        seed: Of weights, order and augmentation.
        out: The run's folder; by default a name under ``runs``.
        resume: Continue what is in the folder.
        devices: Processes on this machine.
        nodes: Machines.
        precision: "32", "bf16" or "16".
        workers: Threads that decode image files.
        data_root: Where official files lie.
        download: Whether to fetch those that are missing.
        strict: Whether unreadable images are an error.
        reporter: Who is told of the progress.

    Raises:
        ValueError: Bad arguments or data; nothing was written.
        FileNotFoundError: Missing data.
        Interrupted: Ctrl-C; the folder can be continued.
        RunFailed: Training broke down.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     run = train("iris", noise="symmetric:0.2", noise_rate=0.2, epochs=20, out=folder)
        >>> run.classes
        ('setosa', 'versicolor', 'virginica')
    """
    reporter = reporter or Silent()
    posterior, digest = _of_audit(labels, method, reporter)
    soft = posterior is not None and method is None
    chosen = with_budget(
        parse_method(
            resolved(
                method or ("ce" if soft else "antidote" if labels is None else UNSURE),
                data=str(data) if isinstance(data, (str, Path)) else "",
                noise=noise,
            )
        ),
        {"noise_rate": None if noise_rate == "auto" else noise_rate, "delta": delta, "penalty": penalty},
    )
    parse_noise(noise)
    check_method(chosen)
    check_text_features(text_features)
    check_out(FOLDERS if out is None else out, data=data, test=test)
    arrays = open_data(
        data, label=label, text=text, image=image, test=test, root=data_root, download=download, strict=strict
    )
    given = {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": lr,
        "optimizer": optimizer,
        "weight_decay": weight_decay,
        "schedule": schedule,
        "warmup": warmup,
        "clip": clip,
    }
    name, settings = chosen_protocol(protocol, arrays, given)
    noise_seed = seed if noise_seed is None else noise_seed
    if text_features == "embeddings":
        reporter.note(
            f"the texts of {len(arrays.labels)} samples are being embedded, which takes a minute or so for 10 000"
        )
    prepared = prepare(
        arrays,
        noise=noise,
        noise_seed=noise_seed,
        seed=seed,
        subset=subset,
        recipe=settings.recipe,
        text_features=text_features,
        augment=augment,
        root=data_root,
        workers=workers,
    )
    chosen = _with_injected(chosen, prepared.noise)
    data_hash = fingerprint(prepared)
    if posterior is not None:
        believed = relabelled(prepared, posterior, soft=soft)
        if believed is prepared:
            reporter.note("the audit found no wrong label among the rows to train on: they are trained on as they are")
        prepared = believed
    network = model or (default_model(prepared.encoding.shape) if settings.model == "auto" else settings.model)
    build_model(network, shape=prepared.encoding.shape, classes=len(prepared.classes), seed=0)  # says what is wrong now
    size = batch_size or min(settings.batch_size, max(SMALLEST_BATCH, len(prepared.labels) // 8))
    spec = Spec(
        data=str(data) if isinstance(data, (str, Path)) else prepared.name,
        data_hash=data_hash,
        classes=len(prepared.classes),
        samples=len(prepared.labels),
        subset=subset,
        noise=noise,
        noise_seed=noise_seed,
        method=str(chosen),
        protocol=name,
        model=network if isinstance(network, str) else f"{type(network).__name__} object",
        schedule_epochs=_schedule_epochs(name, schedule, settings),
        **shared(settings, Spec, but=("model", "batch_size")),
        batch_size=size,
        augment=augment,
        seed=seed,
        devices=devices,
        nodes=nodes,
        precision=_checked_precision(precision),
        text_features=text_features,
        labels=digest,
    )
    if size < 2 * devices * nodes:
        raise ValueError(
            f"a batch of {size} is too small for {devices * nodes} processes: give each at least 2 samples"
        )
    engine = Engine(
        devices=check_positive("devices", devices), nodes=check_positive("nodes", nodes), precision=precision
    )
    folder = Path(out) if out is not None else _default_folder(spec)
    job = Job(
        folder=folder.absolute(),
        spec=spec,
        data=prepared,
        method=chosen,
        settings=Settings(model=network, workers=workers, **shared(spec, Settings, but=("model",))),
        reporter=reporter,
    )
    return _carried_out(job, engine, resume=resume, model=model if isinstance(model, nn.Module) else None)


def load(folder: str | Path, *, which: str = "last", model: nn.Module | None = None) -> Run:
    """A finished run: its model, samples and metrics.

    Args:
        folder: The run's folder.
        which: The "last" epoch's model or the "best" one's.
        model: The network, where the run was given an object that cannot be made again from its name.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     run = train("iris", method="ce", epochs=20, out=folder)
        ...     again = load(folder)
        >>> again.predict([[5.0, 3.4, 1.5, 0.2]])
        array(['setosa'], dtype='<U10')
    """
    return Run.read(Path(folder), which=which, model=model)


def _carried_out(job: Job, engine: Engine, *, resume: bool, model: nn.Module | None) -> Run:
    """The run in its folder, which is locked as long."""
    folder = job.folder
    if not engine.is_first:  # started by a cluster: the first process looks after the folder
        if not (resume and (folder / "done").exists()):  # else the first one does not launch, either
            engine.launch(work, job)
        return Run.read(folder, which="last", model=model)
    make_folder(folder)
    with locked(folder), gently():
        if is_finished(folder, job.spec, job.reporter, resume=resume, rooms=ROOMS):
            return Run.read(folder, which="last", model=model)
        engine.launch(work, job)
    return Run.read(folder, which="last", model=model)


def _of_audit(labels: str | Path | None, method: str | None, reporter: Reporter) -> tuple[Posterior | None, str]:
    """What to train on in place of the given labels, and its digest; nothing where it should not be trusted."""
    if labels is None:
        return None, ""
    posterior, digest = audited(Path(labels))
    if method is None and posterior.sureness < SURE:
        reporter.note(
            "the audit is not sure enough of this data to train on it (its likeliest classes have a mean probability "
            f"of {posterior.sureness:.2f}, below {SURE}): training on the given labels with {UNSURE} instead"
        )
        return None, digest
    return posterior, digest


def _schedule_epochs(protocol: str, schedule: str | None, settings: Protocol) -> int:
    """For how many epochs the schedule was written: the protocol's own, unless the user wrote it."""
    return settings.epochs if schedule is not None else protocols()[protocol].epochs


def _with_injected(method: MethodSpec, noise: Any) -> MethodSpec:
    if method.parameters.get("noise_rate") != "injected":
        return method
    if noise is None:
        raise ValueError("noise_rate=injected needs noise that was injected: add --noise, or give a rate")
    return MethodSpec(method.name, {**method.parameters, "noise_rate": noise.rate})


def _default_folder(spec: Spec) -> Path:
    """A name that says what it is."""
    words = [Path(spec.data).stem or "data", spec.method, spec.noise, f"seed{spec.seed}"]
    name = "-".join(words).replace(":", "-").replace("=", "-")
    return Path(FOLDERS) / "".join(c for c in name if c.isalnum() or c in "-._")


def _checked_precision(precision: str) -> str:
    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}; accepted: {', '.join(PRECISIONS)}")
    return precision
