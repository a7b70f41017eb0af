"""`audit` finds the wrong labels of a data set from start to end, and can be resumed like a run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import nn

from antidote_learn._types import Arrays
from antidote_learn.auditing.audit_job import AuditJob, AuditSpec, run_audit
from antidote_learn.auditing.audit_request import AuditRequest, check_audit
from antidote_learn.auditing.audit_result import Audit, cut_again, read_audit, write_issues
from antidote_learn.auditing.contents import hash_if_stored
from antidote_learn.auditing.cross_training import EPOCHS
from antidote_learn.auditing.embeddings import ROOM, Embeddable, Pictures, Texts
from antidote_learn.auditing.features import features_text, text_columns, width_of, with_audit_features
from antidote_learn.data.encoders import IMAGES, Encoder, missing_encoder, select_encoder
from antidote_learn.data.labels import as_numpy
from antidote_learn.data.load import open_data
from antidote_learn.data.prepared import Prepared, fingerprint, prepare, take_inputs
from antidote_learn.data.sentences import texts_of
from antidote_learn.models import check_model, default_model
from antidote_learn.training.engine import Engine
from antidote_learn.training.folders import claim_folder, is_finished
from antidote_learn.training.interrupts import gently
from antidote_learn.training.loop import Settings
from antidote_learn.training.progress import Reporter, Silent
from antidote_learn.training.protocols import chosen_protocol
from antidote_learn.training.specs import shared

BATCHES = 7  # batches in an epoch, as far as the limits of the batch size allow: few rows need steps enough, too
SMALLEST_BATCH, LARGEST_BATCH = 16, 128  # limits of the batch size; the largest is the usual one of a run
FEWEST_ROWS = 20  # the fewest rows that are audited: each half then trains on ten
MOST_CHARACTERS = 500_000  # the most text that is embedded unasked: about a minute on two cores
WORKERS = 2  # threads that decode image files, as many as `train` has by default


def audit(
    X: Any,
    y: Any = None,
    *,
    label: str | None = None,
    text: Sequence[str] = (),
    image: str | None = None,
    encoder: str = "auto",
    noise: str = "none",
    noise_seed: int | None = None,
    subset: int | None = None,
    model: str | nn.Module | None = None,
    epochs: int = EPOCHS,
    max_flagged: int | None = None,
    fdr: float | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    data_root: str | Path | None = None,
    download: bool = False,
    strict: bool = False,
    reporter: Reporter | None = None,
) -> Audit:
    """Finds which labels are wrong, and how many: small networks and neighbours judge every row.

    Nothing about the noise need be known. Five short trainings (two for the noise rate, two on halves that judge each
    other, one on all rows) and the 20 nearest rows say what class each row has; how classes are mistaken for one
    another is learned from the surest rows.

    Args:
        X: The inputs (a table, numbers, images) that ``y`` belongs to. Without ``y``, any data that `train` takes: a
            built-in name, a file, a folder of images, `Arrays`. A test part is not audited.
        y: (N,) labels.
        label: The label column of a table in a file.
        text: Columns of a table that hold text.
        image: The column of a table that holds paths of image files.
        encoder: The network that embeds images or text before they are judged: "efficientnet-lite0" (extra ``vision``),
            "all-minilm-l6-v2" (extra ``text``), "none" (networks read pixels, and TF-IDF in 100 directions), or "auto":
            the one that suits the data where it is installed. Then images below 16 pixels, and those for which a
            ``model`` is given, are read as they are, and more than 500 000 characters of text as TF-IDF.
        noise: Noise to add first, to see how well errors are found: "symmetric:0.2".
        noise_seed: The seed of that noise; ``seed`` by default.
        subset: Audit so many rows, the first ones of a seeded permutation.
        model: The network: a name, "package.module:factory", or a module; by the kind of the inputs if not given.
        epochs: The epochs of each of the three robust trainings.
        max_flagged: Flag at most so many rows.
        fdr: Flag as many rows as possible while no larger share of them is expected to be right.
        seed: The seed of weights, halves and order.
        out: A folder for the results; without one nothing is kept on disk.
        resume: Continue what is in the folder; a finished audit is read, and flagged anew.
        data_root: The folder of official files.
        download: Whether to fetch official files that are missing.
        strict: Whether unreadable images are an error.
        reporter: The listener to the progress.

    Raises:
        ValueError: Bad arguments or data; nothing was written.
        FileNotFoundError: Missing data.
        Interrupted: Ctrl-C; the folder can be continued.
        RunFailed: Training broke down.

    Example:
        >>> found = audit("iris", noise="symmetric:0.1", epochs=5)
        >>> found.table.columns[:5].tolist()
        ['index', 'is_label_issue', 'label_quality', 'given_label', 'predicted_label']
    """
    check_audit(AuditRequest(**locals()))
    reporter = reporter or Silent()
    noise_seed = seed if noise_seed is None else noise_seed
    arrays = open_data(
        X if y is None else (X, y),
        label=label,
        text=text,
        image=image,
        root=data_root,
        download=download,
        strict=strict,
    )
    if arrays.test_inputs is not None:
        reporter.note(f"the test part of {arrays.name} is not audited")
    if encoder == "auto" and model is not None and not isinstance(arrays.inputs, pd.DataFrame):
        encoder = "none"  # the user's own network reads the pixels
    reader = select_encoder(encoder, arrays.inputs)
    settings = {"epochs": epochs}
    _, protocol = chosen_protocol("features" if reader is IMAGES else None, arrays, settings)
    given = prepare(
        arrays,
        noise=noise,
        noise_seed=noise_seed,
        seed=seed,
        subset=subset,
        recipe=protocol.recipe,
        hold_out=False,
        in_memory=reader is not IMAGES,
        root=data_root,
    )
    rows = len(given.labels)
    if rows < FEWEST_ROWS:
        raise ValueError(f"an audit needs at least {FEWEST_ROWS} rows to learn from; received {rows}")
    places = _input_places(arrays, given)
    embeddable = _embeddable(encoder, reader, arrays, given, places)
    advice = _advice(encoder, embeddable, arrays, given)
    if advice:
        reporter.note(advice)
        embeddable = None
    if embeddable is None:
        used, data = None, with_audit_features(given, seed)
        shape = data.encoding.shape
    else:
        used, data = embeddable.encoder, given
        shape = (width_of(given.encoding, used),)
    count = len(data.classes)
    network = model or (default_model(shape) if protocol.model == "auto" else protocol.model)
    check_model(network, shape=shape, classes=count)
    spec = AuditSpec(
        data=str(X) if isinstance(X, (str, Path)) else given.name,
        data_hash=fingerprint(given),
        classes=count,
        samples=rows,
        subset=subset,
        noise=noise,
        noise_seed=noise_seed,
        encoder="none" if used is None else used.name,
        model=network if isinstance(network, str) else f"{type(network).__name__} object",
        batch_size=min(max(rows // BATCHES, SMALLEST_BATCH), LARGEST_BATCH),
        seed=seed,
        **shared(protocol, AuditSpec, but=("model", "batch_size")),
    )
    job = AuditJob(
        spec=spec,
        given=given,
        data=data,
        embeddable=embeddable,
        names=tuple(map(int, data.classes)) if _has_integers(y) else data.classes,
        inputs=take_inputs(arrays.inputs, places),
        settings=Settings(model=network, workers=WORKERS, **shared(spec, Settings, but=("model",))),
        about={
            "data": spec.data,
            "data_hash": spec.data_hash,
            "content_hash": hash_if_stored(X),
            "noise": noise,
            "encoder": None if used is None else used.name,
            "features": features_text(given, used),
            "advice": advice,
            "notes": list(given.notes),
            "out": None if out is None else str(Path(out).absolute()),
        },
        cut={"max_flagged": max_flagged, "fdr": fdr},
        reporter=reporter,
    )
    if out is not None:
        return _run_in_folder(job, Path(out).absolute(), resume=resume)
    with tempfile.TemporaryDirectory() as folder:
        return _run_in_folder(job, Path(folder) / "audit", resume=False)


def _run_in_folder(job: AuditJob, folder: Path, *, resume: bool) -> Audit:
    """Carries out the audit in its folder, which stays locked until the end."""
    with claim_folder(folder, job.spec), gently():
        rooms = ("checkpoint",) if job.embeddable is None else ("checkpoint", ROOM)
        if is_finished(folder, job.spec, job.reporter, resume=resume, rooms=rooms):
            done = cut_again(read_audit(folder, job.inputs), **job.cut)
            write_issues(folder, done)
            return done
        try:
            return Engine().launch(run_audit, job, folder)  # type: ignore[no-any-return]
        finally:
            job.reporter.close()


def _embeddable(
    choice: str, encoder: Encoder | None, arrays: Arrays, given: Prepared, places: NDArray[np.int64]
) -> Embeddable | None:
    """Returns the images or texts that the encoder reads; None if nothing is to be embedded."""
    if encoder is None:
        return None
    if not isinstance(arrays.inputs, pd.DataFrame):
        return Pictures(given.rows)
    names = text_columns(given.encoding)
    if not names and choice != "auto":
        raise ValueError(f"encoder {choice} reads text, and no column was found to be text: name it with `text`")
    table = arrays.inputs.iloc[places]
    return Texts([texts_of(table[name]) for name in names]) if names else None


def _advice(choice: str, embeddable: Embeddable | None, arrays: Arrays, given: Prepared) -> str:
    """Returns advice on an encoder that "auto" left out: it is not installed, or there is much text."""
    if choice != "auto":
        return ""
    if isinstance(embeddable, Texts) and embeddable.characters > MOST_CHARACTERS:
        return (
            f"{embeddable.characters} characters of text would take long to embed (up to {MOST_CHARACTERS} are): they "
            f"are judged as TF-IDF; `encoder={embeddable.encoder.name}` embeds them, often better"
        )
    lacking = missing_encoder(arrays.inputs)
    if lacking is not None and (lacking is IMAGES or text_columns(given.encoding)):
        return f"the {lacking.reads} could be judged on embeddings, often better: {lacking.advice}"
    return ""


def _input_places(arrays: Arrays, prepared: Prepared) -> NDArray[np.int64]:
    """Returns the positions (N,) of the rows among the inputs."""
    if arrays.positions is None:
        return prepared.index
    order = np.argsort(arrays.positions)
    return order[np.searchsorted(arrays.positions, prepared.index, sorter=order)]


def _has_integers(y: Any) -> bool:
    """Tells whether the user's labels are whole numbers, which results then show as numbers."""
    return y is not None and np.asarray(as_numpy(y)).dtype.kind in "iu"
