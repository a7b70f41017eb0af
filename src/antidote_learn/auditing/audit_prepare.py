"""Second step of an audit: it reads the data, and settles encoder, settings and network; nothing is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from antidote_learn._types import Arrays
from antidote_learn.auditing.audit_job import AuditJob, AuditSpec
from antidote_learn.auditing.audit_request import COLUMNLESS, AuditRequest
from antidote_learn.auditing.contents import hash_if_stored
from antidote_learn.auditing.cross_training import judging_batch_size
from antidote_learn.auditing.embeddings import Embeddable, Pictures, Texts
from antidote_learn.auditing.features import features_text, text_columns, width_of, with_audit_features
from antidote_learn.auditing.own_judges import describe_judges
from antidote_learn.data.encoders import IMAGES, Encoder, missing_encoder, select_encoder
from antidote_learn.data.inputs import take_inputs
from antidote_learn.data.labels import as_numpy
from antidote_learn.data.prepared import Prepared, fingerprint, prepare
from antidote_learn.data.sentences import texts_of
from antidote_learn.training.prepare import choose_network, open_request
from antidote_learn.training.progress import Reporter, Silent
from antidote_learn.training.settings import settings_for
from antidote_learn.training.specs import columns_of, label_summary

FEWEST_ROWS = 20  # the fewest rows that are audited, so that each half has ten
MOST_CHARACTERS = 3_000_000  # the most characters that are embedded by default: about six minutes on two cores


def prepare_audit(asked: AuditRequest, folder: Path) -> AuditJob:
    """Reads the data, and settles everything that determines the audit.

    Raises:
        ValueError: Bad data.
        FileNotFoundError: Missing data.
    """
    reporter = asked.reporter or Silent()
    arrays = open_request(asked)
    if arrays.test_inputs is not None:
        reporter.note(f"the test part of {arrays.name} is not audited")
    choice = _encoder_choice(asked, arrays)
    reader = select_encoder(choice, arrays.inputs)
    protocol = "features" if reader is IMAGES else None
    settings = settings_for(protocol, arrays, {"epochs": asked.epochs}, seed=asked.seed)
    given = _prepare_rows(asked, arrays, settings.recipe, in_memory=reader is not IMAGES)
    places = input_places(arrays, given)
    embeddable, advice = _choose_embeddable(choice, reader, arrays, given, places, reporter)
    encoder = None if embeddable is None else embeddable.encoder
    data = with_audit_features(given, asked.seed) if encoder is None else given
    shape = data.encoding.shape if encoder is None else (width_of(given.encoding, encoder),)
    size = judging_batch_size(len(given.labels))
    network, settings = choose_network(
        asked.model, replace(settings, batch_size=size), shape=shape, classes=len(data.classes)
    )
    spec = AuditSpec(
        data=str(asked.X) if isinstance(asked.X, (str, Path)) else given.name,
        data_hash=fingerprint(given),
        classes=len(data.classes),
        samples=len(given.labels),
        subset=asked.subset,
        noise=asked.noise,
        noise_seed=asked.own_noise_seed,
        encoder="none" if encoder is None else encoder.name,
        settings=settings,
        judges=describe_judges(asked.judges),
        **columns_of(asked, given.label),
    )
    return AuditJob(
        folder=folder,
        spec=spec,
        given=given,
        data=data,
        embeddable=embeddable,
        names=tuple(map(int, data.classes)) if _has_integers(asked.y) else data.classes,
        inputs=take_inputs(arrays.inputs, places),
        judges=asked.judges,
        source=_source_rows(asked, arrays, places),
        network=network,
        about={
            "data": spec.data,
            "data_hash": spec.data_hash,
            **label_summary(given.label),
            "content_hash": hash_if_stored(asked.X),
            "noise": asked.noise,
            "encoder": None if encoder is None else encoder.name,
            "features": features_text(given, encoder),
            "advice": advice,
            "notes": list(given.notes),
            "out": None if asked.out is None else str(folder),
        },
        cut=asked.cut,
        with_columns=asked.with_columns,
        reporter=reporter,
    )


def _encoder_choice(asked: AuditRequest, arrays: Arrays) -> str:
    """Returns the encoder that the user names; "none" where the user's own network reads the pixels."""
    is_own = asked.encoder == "auto" and asked.model is not None and not isinstance(arrays.inputs, pd.DataFrame)
    return "none" if is_own else asked.encoder


def _prepare_rows(asked: AuditRequest, arrays: Arrays, recipe: str, *, in_memory: bool) -> Prepared:
    given = prepare(
        arrays,
        noise=asked.noise,
        noise_seed=asked.own_noise_seed,
        seed=asked.seed,
        subset=asked.subset,
        recipe=recipe,
        hold_out=False,
        in_memory=in_memory,
        root=asked.data_root,
    )
    if len(given.labels) < FEWEST_ROWS:
        raise ValueError(f"an audit needs at least {FEWEST_ROWS} rows to learn from; received {len(given.labels)}")
    asked.cut.check_rows(len(given.labels))
    return given


def _choose_embeddable(
    choice: str,
    reader: Encoder | None,
    arrays: Arrays,
    given: Prepared,
    places: NDArray[np.int64],
    reporter: Reporter,
) -> tuple[Embeddable | None, str]:
    """Returns the inputs to embed, None if there are none, and advice on an encoder that could serve and does not."""
    embeddable = _embeddable(choice, reader, arrays, given, places)
    advice = _advice(choice, embeddable, arrays, given)
    if advice:
        reporter.note(advice)
        return None, advice
    return embeddable, ""


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
    if isinstance(embeddable, Texts) and (characters := int(embeddable.work().sum())) > MOST_CHARACTERS:
        return (
            f"{characters} characters of text would take long to embed (up to {MOST_CHARACTERS} are): they "
            f"are judged as TF-IDF; `encoder={embeddable.encoder.name}` embeds them, often better"
        )
    lacking = missing_encoder(arrays.inputs)
    if lacking is not None and (lacking is IMAGES or text_columns(given.encoding)):
        return f"the {lacking.reads} could be judged on embeddings, often better: {lacking.advice}"
    return ""


def input_places(arrays: Arrays, prepared: Prepared) -> NDArray[np.int64]:
    """Returns the positions (N,) of the rows among the inputs."""
    if arrays.positions is None:
        return prepared.index
    order = np.argsort(arrays.positions)
    return order[np.searchsorted(arrays.positions, prepared.index, sorter=order)]


def _source_rows(asked: AuditRequest, arrays: Arrays, places: NDArray[np.int64]) -> pd.DataFrame | None:
    """Returns the rows of the table that the inputs are from; None for data that are no table."""
    table = arrays.inputs if arrays.source is None else arrays.source
    if isinstance(table, pd.DataFrame):
        return table.iloc[places].reset_index(drop=True)
    if asked.with_columns:
        raise ValueError(COLUMNLESS)
    return None


def _has_integers(y: Any) -> bool:
    """Tells whether the user's labels are whole numbers, which results then show as numbers."""
    return y is not None and np.asarray(as_numpy(y)).dtype.kind in "iu"
