"""Third step of a run or an audit: its work, in its folder, which is locked as long."""

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
    """Gives what the work returns, or what is there already of work that is finished.

    Args:
        job: What to do; it has a ``folder``, a ``spec`` and a ``reporter``.
        engine: The processes that do it.
        work: Called with the engine and the job in every process.
        reread: Called with the job where its folder holds it finished.
        resume: Whether the user wants what is in the folder to go on.
        rooms: The folders inside it that are written to.

    Raises:
        ValueError: The folder holds something else.
        Interrupted: Ctrl-C; the folder can be continued.
        RunFailed: Training broke down.
    """
    if not engine.is_first:  # started by a cluster: the first process looks after the folder
        is_done = resume and (job.folder / "done").exists()  # the first process does not launch then, either
        result: Result = reread(job) if is_done else engine.launch(work, job)
        return result
    with claim_folder(job.folder, job.spec), gently():
        if is_finished(job.folder, job.spec, job.reporter, resume=resume, rooms=rooms):
            return reread(job)
        return engine.launch(work, job)  # type: ignore[no-any-return]
