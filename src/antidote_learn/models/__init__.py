"""Networks, and how a user names one."""

from antidote_learn.models.naming import MODELS as MODELS
from antidote_learn.models.naming import Model as Model
from antidote_learn.models.naming import ModelEntry as ModelEntry
from antidote_learn.models.naming import build_model as build_model
from antidote_learn.models.naming import check_model as check_model
from antidote_learn.models.naming import default_model as default_model
from antidote_learn.models.naming import is_built_in as is_built_in
from antidote_learn.models.networks import Network as Network
from antidote_learn.models.networks import features_and_head as features_and_head
