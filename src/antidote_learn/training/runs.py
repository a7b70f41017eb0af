"""`train` and `load`: a run is a folder that says everything about itself and gives the model back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from antidote_learn._types import Arrays
from antidote_learn.models import Model
from antidote_learn.training.engine import Engine
from antidote_learn.training.execute import execute
from antidote_learn.training.job import Job, work
from antidote_learn.training.prepare import prepare_run
from antidote_learn.training.progress import Reporter
from antidote_learn.training.resolve import Request, ResolvedRequest, resolve_request
from antidote_learn.training.results import Run

ROOMS = ("checkpoint", "model")  # the folders of a run that are written to


def train(
    data: str | Path | Arrays | Sequence[Any],
    *,
    method: Any = None,
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
        method: With parameters, as on the command line: "antidote" (the default), "ce", "antidote:divergence=chi2". Or
            one of your own, a class or an object (see `register_method`).
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
    return carry_out(resolve_request(Request(**locals())))


def carry_out(resolved: ResolvedRequest) -> Run:
    """The run that a request asks for: prepared, executed, and read back with the caller's own network."""
    asked = resolved.asked
    job = prepare_run(resolved)
    engine = Engine(devices=asked.devices, nodes=asked.nodes, precision=asked.precision)
    execute(job, engine, work, _keep_run, resume=asked.resume, rooms=ROOMS)
    return Run.read(job.folder, which="last", model=job.network)


def _keep_run(job: Job) -> None:
    """A finished run stays as it is."""


def load(folder: str | Path, *, which: str = "last", model: Model | None = None) -> Run:
    """A finished run: its model, samples and metrics.

    Args:
        folder: The run's folder.
        which: The "last" epoch's model or the "best" one's.
        model: The network, where the run was trained with one that is not of the package: a module, a factory, or
            "package.module:factory". Code that the folder names is never executed.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     run = train("iris", method="ce", epochs=20, out=folder)
        ...     again = load(folder)
        >>> again.predict([[5.0, 3.4, 1.5, 0.2]])
        array(['setosa'], dtype='<U10')
    """
    return Run.read(Path(folder), which=which, model=model)
