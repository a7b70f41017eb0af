"""The distributed engine: devices, processes, precision. No other file knows which one it is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from multiprocessing import current_process
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException
from torch.optim import Optimizer

from antidote_learn.training.interrupts import Interrupted, hear, is_interrupted, make_flag
from antidote_learn.training.resolve import PRECISIONS

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # what it announces is no news to the user


class RunFailed(RuntimeError):
    """Training cannot go on; the message says why."""


class Engine:
    """One process's view of the run.

    Args:
        devices: Processes on this machine, one for each device.
        nodes: Machines.
        precision: "32", "bf16" or "16" (mixed).
        accelerator: The kind of device, "cpu", "cuda" or "mps"; "auto" takes the best there is.
    """

    def __init__(self, *, devices: int = 1, nodes: int = 1, precision: str = "32", accelerator: str = "auto") -> None:
        kind: Any = PRECISIONS[precision]
        given: Any = {"devices": devices, "num_nodes": nodes, "precision": kind, "accelerator": accelerator}
        self.fabric = Fabric(strategy="ddp" if devices * nodes > 1 else "auto", **given)
        if devices * nodes > 1 and not self._is_cluster_started:
            self.fabric = Fabric(strategy="ddp_spawn", **given)

    def launch(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """work(engine, *arguments) in every process; what the first one returns."""
        try:
            result, stopped = self.fabric.launch(partial(_call, work, arguments, make_flag()))
        except (ProcessExitedException, ProcessRaisedException) as error:
            if is_interrupted():  # before it could listen
                raise Interrupted from error
            reason = str(error).strip().splitlines()[-1]  # of a traceback, or the only line
            raise RunFailed(reason.removeprefix(f"{__name__}.RunFailed: ")) from error
        if stopped:
            raise Interrupted
        return result

    @property
    def is_first(self) -> bool:
        """Before the launch: whether this process is the first one, or the only one there is yet."""
        return not self._is_cluster_started or self.rank == 0

    @property
    def _is_cluster_started(self) -> bool:
        """Whether torchrun, SLURM or the like has started the processes already."""
        environment: Any = getattr(self.fabric.strategy, "cluster_environment", None)
        return environment is not None and bool(environment.creates_processes_externally)

    @property
    def processes(self) -> int:
        """How many there are."""
        return int(self.fabric.world_size)

    @property
    def rank(self) -> int:
        """This one's number."""
        return int(self.fabric.global_rank)

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return self.fabric.device

    def setup_network(self, net: nn.Module) -> nn.Module:
        """A network on the device and, in a group, in step with the other processes."""
        return self.fabric.setup_module(net, move_to_device=True)

    def setup_optimizer(self, optimizer: Optimizer) -> Optimizer:
        """An optimiser whose steps suit the precision."""
        prepared: Any = self.fabric.setup_optimizers(optimizer)  # of one optimiser: one
        own: Optimizer = prepared
        return own

    def backward(self, loss: Tensor) -> None:
        """Gradients, averaged over processes."""
        self.fabric.backward(loss)

    def average_gradients(self, optimizer: Optimizer) -> None:
        """Averages the gradients of parameters that are in no network over processes."""
        if self.processes == 1:
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    dist.all_reduce(parameter.grad)
                    parameter.grad /= self.processes

    def clip(self, net: nn.Module, optimizer: Optimizer, norm: float) -> None:
        """Scales the gradient down to a norm."""
        self.fabric.clip_gradients(net, optimizer, max_norm=norm, error_if_nonfinite=False)

    def seed(self, number: int) -> None:
        """Sets what layers such as dropout draw from; every process gets another state."""
        torch.default_generator.manual_seed(number + self.rank)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(number + self.rank)

    def largest(self, number: int) -> int:
        """The largest of the processes' numbers."""
        if self.processes == 1:
            return number
        largest = torch.tensor(number, device=self.device)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest.item())

    def total(self, numbers: Tensor) -> Tensor:
        """The sum over processes."""
        if self.processes > 1:
            dist.all_reduce(numbers)
        return numbers

    def align(self, net: nn.Module) -> None:
        """Gives every process the first one's buffers (running means), which each has of its own samples."""
        if self.processes > 1:
            for buffer in net.buffers():
                dist.broadcast(buffer, 0)

    def collect(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """The rows of all processes, which have these sizes, in order, on the host."""
        return self.gather(rows, sizes).cpu()

    def gather(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """The rows of all processes, which have these sizes, in order, on the device."""
        if self.processes == 1:
            return rows
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows
        gathered = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(gathered, padded)
        return torch.cat([part[:size] for part, size in zip(gathered, sizes, strict=True)])

    def barrier(self) -> None:
        """Waits for all processes."""
        self.fabric.barrier()


def plain_network(net: nn.Module) -> nn.Module:
    """The user's own network inside what `Engine.setup` gave."""
    from lightning_fabric.wrappers import _FabricModule

    return net.module if isinstance(net, _FabricModule) else net


def _call(work: Callable[..., Any], arguments: tuple[Any, ...], flag: Any, fabric: Fabric) -> tuple[Any, bool]:
    """(what the work returns, whether the user stopped it): an exception would not come through whole."""
    hear(flag)
    engine = Engine.__new__(Engine)
    engine.fabric = fabric
    try:
        result = work(engine, *arguments), False
    except Interrupted:
        result = None, True
    if current_process().name != "MainProcess" and dist.is_initialized():
        dist.destroy_process_group()  # threads of a group that is left open abort a process as it ends
    return result
