"""`train` carries out a run in a folder, and `load` reads a finished run back."""

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

ROOMS = ("checkpoint", "model")  # the names of the folders inside a run's folder that are written to


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
    exclude: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    text_features: str = "tfidf",
    test: str | Path | None = None,
    subset: int | None = None,
    holdout: float | None = None,
    snapshots: str | Sequence[int] = (),
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
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    reporter: Reporter | None = None,
) -> Run:
    """Trains a network on labels that cannot be trusted, and gives the run back.

    Args:
        data: The data: a built-in name, a file, a folder of images by class, `Arrays`, or a pair (X, y).
        method: The method: a name with parameters, such as "antidote" (the default), "ce" or
            "antidote:divergence=chi2"; or a class or an object of your own (see `register_method`).
        labels: The folder of an audit of this data. Without a ``method``, the network is trained on the audit's
            beliefs with plain cross-entropy, or on the given labels if the audit is not sure enough. With a
            ``method``, the network is trained on the audit's likeliest classes.
        noise_rate: The share of wrong labels, in [0, 1); "auto" estimates it, "injected" takes the rate of ``noise``.
        delta: The budget of the relaxation, in place of ``noise_rate``.
        penalty: The price of a budget that every batch chooses for itself, in place of ``noise_rate``.
        noise: The noise to add to the training labels, such as "symmetric:0.4".
        noise_seed: The seed of the added noise; the run's seed by default.
        label: The label column of a table.
        text: The columns of a table that hold text.
        image: The column of a table that holds paths of image files, relative to the table; the inputs are then these
            images.
        exclude: Columns of a table that are not used at all.
        features: The columns of a table to learn from; by default all but the label, those that count the rows, and
            those that are the label in other words.
        text_features: The features of text: "tfidf", or "embeddings" of whole sentences (needs the extra ``text``).
        test: The table or folder of the test samples; by default the data set's own, or a fifth that is held out.
        subset: The number of training samples, taken from a seeded permutation; None for all samples.
        holdout: The share of the training samples, with their noisy labels, that takes the place of the test samples:
            to choose settings without a look at the test samples; None for none.
        snapshots: The epochs after which the losses of all training samples are kept, such as (50, 100).
        model: The network: a name with parameters, "package.module:factory", or an ``nn.Module``; by default the
            protocol's network.
        protocol: The name of a set of training settings, which the arguments from ``epochs`` to ``clip`` override; by
            default the protocol of the data set.
        epochs: The number of passes over the data.
        batch_size: The number of samples in a global batch, which is split over devices.
        lr: The initial learning rate.
        optimizer: The optimiser, "sgd" or "adamw".
        weight_decay: The weight decay of the optimiser.
        schedule: The schedule of the learning rate: "constant", "cosine", "step:E1,E2" or "exponential:F".
        warmup: The number of epochs over which the learning rate rises from 0.
        clip: The largest norm of the gradient; 0 for no limit.
        augment: Whether training images are cropped, mirrored and turned at random, as the protocol says.
        seed: The seed of weights, order and augmentation.
        out: The run's folder; by default a folder in ``runs``, named after the run.
        resume: Whether to continue the run in the folder.
        devices: The number of processes on this machine, one for each device.
        nodes: The number of machines.
        precision: The precision of numbers: "32", or mixed "bf16" or "16".
        workers: The number of threads that decode image files.
        data_root: The folder of official files; by default ``$ANTIDOTE_DATA``, or ``~/.cache/antidote``.
        download: Whether to fetch official files that are missing.
        strict: Whether unreadable images and rows without a label are an error; otherwise they are left out, with a
            note.
        encoding: The encoding of tables in text files, such as "cp1252"; detected if it is not given, as are the next.
        separator: The separator of their columns, such as ";" or "tab".
        decimal: The decimal mark of their numbers, "." or ",".
        reporter: The reporter of the progress; None reports nothing.

    Raises:
        ValueError: Arguments or data are bad; nothing was written.
        FileNotFoundError: Data are missing.
        Interrupted: The user pressed Ctrl-C; the run can be continued.
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
    """Prepares and executes the run that a request asks for, and reads it back with the caller's own network."""
    asked = resolved.asked
    job = prepare_run(resolved)
    engine = Engine(devices=asked.devices, nodes=asked.nodes, precision=asked.precision)
    execute(job, engine, work, _keep_run, resume=asked.resume, rooms=ROOMS)
    return Run.read(job.folder, which="last", model=job.network)


def _keep_run(job: Job) -> None:
    """Leaves a finished run as it is."""


def load(folder: str | Path, *, which: str = "last", model: Model | None = None) -> Run:
    """Loads a finished run with its model, samples and metrics.

    Args:
        folder: The run's folder.
        which: The epoch whose model is loaded, "last" or "best".
        model: The network, if the run was trained with one that is not of the package: a module, a factory, or
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
