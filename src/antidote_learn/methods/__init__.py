"""Training algorithms, and the types that a method of your own is written with."""

from antidote_learn.methods.base import Context as Context
from antidote_learn.methods.base import EpochPlan as EpochPlan
from antidote_learn.methods.base import Objective as Objective
from antidote_learn.methods.base import Stage as Stage
from antidote_learn.methods.base import StepStats as StepStats
from antidote_learn.methods.base import Stream as Stream
