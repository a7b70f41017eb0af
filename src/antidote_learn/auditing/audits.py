"""`audit` finds the wrong labels of a data set from start to end, and can be resumed like a run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from antidote_learn.auditing.audit_job import AuditJob, run_audit
from antidote_learn.auditing.audit_prepare import prepare_audit
from antidote_learn.auditing.audit_request import AuditRequest, check_audit
from antidote_learn.auditing.audit_result import Audit, cut_again, read_audit, write_issues
from antidote_learn.auditing.cross_training import EPOCHS
from antidote_learn.auditing.embeddings import ROOM
from antidote_learn.training.engine import Engine
from antidote_learn.training.execute import execute
from antidote_learn.training.progress import Reporter


def audit(
    X: Any,
    y: Any = None,
    *,
    label: str | None = None,
    text: Sequence[str] = (),
    image: str | None = None,
    exclude: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    encoder: str = "auto",
    noise: str = "none",
    noise_seed: int | None = None,
    subset: int | None = None,
    model: str | nn.Module | None = None,
    epochs: int = EPOCHS,
    judges: Sequence[Any] = (),
    flag: int | None = None,
    max_flagged: int | None = None,
    fdr: float | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    with_columns: bool = False,
    resume: bool = False,
    data_root: str | Path | None = None,
    download: bool = False,
    strict: bool = False,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    reporter: Reporter | None = None,
) -> Audit:
    """Finds which labels are wrong, and how many: small networks and neighbours judge every row.

    Nothing about the noise need be known. Five short trainings (two for the noise rate, two on halves that judge each
    other, one on all rows) and the 20 nearest rows say what class each row has; on tables a linear model and boosted
    trees do, too. How classes are mistaken for one another is learned from the surest rows.

    Args:
        X: The inputs (a table, numbers, images) that ``y`` belongs to. Without ``y``, any data that `train` takes: a
            built-in name, a file, a folder of images, `Arrays`. A test part is not audited.
        y: (N,) labels.
        label: The label column of a table in a file.
        text: Columns of a table that hold text.
        image: The column of a table that holds paths of image files.
        exclude: Columns of a table that are not used at all.
        features: The columns of a table to judge by; by default all but the label, those that count the rows, and those
            that are the label in other words.
        encoder: The network that embeds images or text before they are judged: "efficientnet-lite0" (extra ``vision``),
            "all-minilm-l6-v2" (extra ``text``), "none" (networks read pixels, and TF-IDF in 100 directions), or "auto":
            the one that suits the data where it is installed. Then images below 16 pixels, and those for which a
            ``model`` is given, are read as they are, and more than 3 000 000 characters of text as TF-IDF.
        noise: Noise to add first, to see how well errors are found: "symmetric:0.2".
        noise_seed: The seed of that noise; ``seed`` by default.
        subset: Audit so many rows, the first ones of a seeded permutation.
        model: The network: a name, "package.module:factory", or a module; by the kind of the inputs if not given.
        epochs: The epochs of each of the three robust trainings.
        judges: Further judges: scikit-learn classifiers that give probabilities. Each predicts rows that it was not
            fitted on, from the numbers that the networks read; images are made 16 x 16 pixels at most.
        flag: Flag exactly so many rows, the worst; without ``max_flagged`` and ``fdr``.
        max_flagged: Flag at most so many rows.
        fdr: Flag as many rows as possible while no larger share of them is expected to be right.
        seed: The seed of weights, halves and order.
        out: A folder for the results; without one nothing is kept on disk.
        with_columns: Whether ``issues.csv`` carries the columns of a table.
        resume: Continue what is in the folder; a finished audit is read, and flagged anew.
        data_root: The folder of official files.
        download: Whether to fetch official files that are missing.
        strict: Whether unreadable images and rows without a label are an error.
        encoding: The encoding of a text file, such as "cp1252"; detected if it is not given, as are the next.
        separator: The separator of its columns, such as ";" or "tab".
        decimal: The decimal mark of its numbers, "." or ",".
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
    asked = AuditRequest(**locals())
    check_audit(asked)
    return carry_out_audit(asked)


def carry_out_audit(asked: AuditRequest) -> Audit:
    """Carries out an audit that was checked, in its folder or in one that is gone afterwards."""
    if asked.out is not None:
        return _execute_audit(asked, Path(asked.out).absolute())
    with tempfile.TemporaryDirectory() as folder:
        return _execute_audit(asked, Path(folder) / "audit")


def _execute_audit(asked: AuditRequest, folder: Path) -> Audit:
    job = prepare_audit(asked, folder)
    rooms = ("checkpoint",) if job.embeddable is None else ("checkpoint", ROOM)
    return execute(job, Engine(), run_audit, _flag_again, resume=asked.resume, rooms=rooms)


def _flag_again(job: AuditJob) -> Audit:
    """Reads a finished audit, and flags its rows by the present limits."""
    done = cut_again(read_audit(job.folder, job.inputs, job.source), job.cut)
    write_issues(job.folder, done, with_columns=job.with_columns)
    return done
