"""Third step of a run or an audit: the work is done in a folder, which is locked meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from antidote_learn.training.engine import Engine
from antidote_learn.training.folders import claim_folder, is_finished
from antidote_learn.training.interrupts import gently

Result = TypeVar("Result")


def execute(
    job: Any,
    engine: Engine,
    work: Callable[..., Result],
    reread: Callable[..., Result],
    *,
    resume: bool,
    rooms: tuple[str, ...],
) -> Result:
    """Does the work and returns its result, or rereads the result of finished work.

    Args:
        job: The job, with a ``folder``, a ``spec`` and a ``reporter``.
        engine: The processes that do the work.
        work: The function that every process calls with the engine and the job.
        reread: The function that gives the result of a finished job.
        resume: Whether to continue the job that the folder holds.
        rooms: The names of the folders inside the job's folder that are written to.

    Raises:
        ValueError: The folder holds something else.
        Interrupted: The user pressed Ctrl-C; the job can be continued.
        RunFailed: Training broke down.
    """
    if not engine.is_first:  # a cluster started this process: the first one looks after the folder
        is_done = resume and (job.folder / "done").exists()  # the first process launches no finished job, either
        result: Result = reread(job) if is_done else engine.launch(work, job)
        return result
    with claim_folder(job.folder, job.spec), gently():
        if is_finished(job.folder, job.spec, job.reporter, resume=resume, rooms=rooms):
            return reread(job)
        return engine.launch(work, job)  # type: ignore[no-any-return]
