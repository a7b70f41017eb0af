"""Options that several commands have, with their help."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[str, typer.Argument(help="A built-in name, a .csv, .parquet or .npz file, or a folder of images.")]
Label = Annotated[str | None, typer.Option(help="Label column of a table.")]
Text = Annotated[list[str] | None, typer.Option(help="Column that holds text; may be repeated.")]
Image = Annotated[str | None, typer.Option(help="Column of a table that holds paths of image files.")]
TextFeatures = Annotated[str, typer.Option(help="What text becomes: tfidf or embeddings.")]
Encoder = Annotated[
    str, typer.Option(help="What embeds images or text: auto, none, efficientnet-lite0 or all-minilm-l6-v2.")
]
Test = Annotated[str | None, typer.Option(help="Test table or folder (default: a fifth is held out).")]
Subset = Annotated[int | None, typer.Option(help="Train on so many samples.")]
Model = Annotated[str | None, typer.Option(help="Network, e.g. cnn8:width=0.5 or package.module:factory.")]
Protocol = Annotated[str | None, typer.Option(help="Named settings, see `antidote list protocols`.")]
Epochs = Annotated[int | None, typer.Option(help="How often the data is seen.")]
BatchSize = Annotated[int | None, typer.Option(help="Size of the global batch.")]
Rate = Annotated[float | None, typer.Option(help="Initial learning rate.")]
Optimizer = Annotated[str | None, typer.Option(help="sgd or adamw.")]
WeightDecay = Annotated[float | None, typer.Option(help="Weight decay.")]
Schedule = Annotated[str | None, typer.Option(help="constant, cosine, step:E1,E2 or exponential:F.")]
Warmup = Annotated[float | None, typer.Option(help="Epochs over which the learning rate rises.")]
Clip = Annotated[float | None, typer.Option(help="Largest norm of the gradient, 0 for any.")]
Augment = Annotated[bool, typer.Option("--augment/--no-augment", help="Crop and mirror training images.")]
DataRoot = Annotated[Path | None, typer.Option(help="Where official files lie (default: $ANTIDOTE_DATA).")]
Download = Annotated[bool, typer.Option("--download", help="Fetch official files that are missing.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse data with unreadable images.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no notes.")]
