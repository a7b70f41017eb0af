"""Networks, and their names.

The modules that build networks are imported when they are first used, as they need torch and names do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from antidote_learn.models.names import MODELS as MODELS
from antidote_learn.models.names import Model as Model
from antidote_learn.models.names import ModelEntry as ModelEntry
from antidote_learn.models.names import default_model as default_model
from antidote_learn.models.names import is_built_in as is_built_in
from antidote_learn.models.names import split_model as split_model

if TYPE_CHECKING:
    from antidote_learn.models.building import build_model as build_model
    from antidote_learn.models.building import check_model as check_model
    from antidote_learn.models.networks import Network as Network
    from antidote_learn.models.networks import features_and_head as features_and_head

_PLACES = {"build_model": "building", "check_model": "building", "Network": "networks", "features_and_head": "networks"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
