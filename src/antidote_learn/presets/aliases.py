"""Names of published code and of the paper's rows, and the losses and methods that they stand for."""

from __future__ import annotations

from antidote_learn.presets import PresetCase, preset

# Names of methods and losses in the published code.
ALIASES = {
    "CE": "ce",
    "FL": "preset:FL",
    "MAE": "mae",
    "MSE": "mse",
    "GCE": "preset:GCE",
    "RCE": "rce",
    "SCE": "preset:SCE",
    "NCE": "nce",
    "NFL": "nfl:gamma=0.5:detach=true",
    "NNCE": "nnce",
    "NNFL": "nnfl:gamma=0.5:detach=true",
    "NCEandMAE": "preset:NCE+MAE",
    "NCEandRCE": "preset:NCE+RCE",
    "NFLandRCE": "preset:NFL+RCE",
    "NFLandMAE": "nfl:gamma=0.5:detach=true+0.5*mae",
    "NCEandNNCE": "preset:NCE+NNCE",
    "NFLandNNFL": "preset:NFL+NNFL",
    "NCEandAUL": "preset:NCE+AUL",
    "NCEandAGCE": "preset:NCE+AGCE",
    "NCEandAEL": "preset:NCE+AEL",
    "AUL": "preset:AUL",
    "AUE": "preset:AUL",
    "AGCE": "preset:AGCE",
    "AEL": "preset:AEL",
    "AExp": "preset:AEL",
    "LDR": "preset:LDR-KL",
    "CEandLC": "preset:CE+LC",
    "ECEandMAE": "preset:CE_eps+MAE",
    "EFLandMAE": "preset:FL_eps+MAE",
    "NLNL": "preset:NLNL",
    "antidote_kl_bisec": "antidote",
    "antidote_kl": "antidote-gradient",
    "antidote_alpha": "antidote-gradient:divergence=[alpha:2]",  # alpha = 2 is the default of the released code
}


def expand_name(text: str, *, data: str = "cifar10", noise: str = "symmetric") -> str:
    """Replaces an alias or ``preset:ROW`` by the loss or method that it stands for.

    Args:
        text: The loss or method as the user wrote it.
        data: The name of the data set, which a preset may depend on.
        noise: The noise, which a preset may depend on.

    Example:
        >>> expand_name("preset:NCE+MAE", data="cifar100")
        '10*nce+0.05*mae'
    """
    if not isinstance(text, str):
        raise ValueError(f"a loss or method is named by a string such as 'gce:q=0.7', got {text!r}")
    case = _preset_case(text, data, noise)
    return ALIASES.get(text.strip(), text.strip()) if case is None else case.loss


def stand_in_note(text: str, *, data: str, noise: str) -> str:
    """A sentence for a ``preset:ROW`` without published values for the data or noise at hand; else "".

    Example:
        >>> stand_in_note("preset:GCE", data="cifar10", noise="symmetric:0.4")
        ''
    """
    case = _preset_case(text, data, noise)
    return "" if case is None else case.note


def _preset_case(text: str, data: str, noise: str) -> PresetCase | None:
    """The preset that the text names; None if it names none."""
    text = ALIASES.get(text.strip(), text.strip())
    return preset(text.removeprefix("preset:"), data=data, noise=noise) if text.startswith("preset:") else None
