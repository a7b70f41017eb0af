"""The distributed engine for devices, processes and precision: the only file that knows Lightning Fabric."""

from __future__ import annotations

import logging
import os
import sys
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

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # Fabric's announcements are no news to the user


class RunFailed(RuntimeError):
    """Training cannot go on, for the reason in the message."""


class Engine:
    """One process's view of the run.

    Args:
        devices: The number of processes on this machine, one for each device.
        nodes: The number of machines.
        precision: The precision of numbers: "32", or mixed "bf16" or "16".
        accelerator: The kind of device, "cpu", "cuda" or "mps"; "auto" takes the best there is.
    """

    def __init__(self, *, devices: int = 1, nodes: int = 1, precision: str = "32", accelerator: str = "auto") -> None:
        kind: Any = PRECISIONS[precision]
        given: Any = {"devices": devices, "num_nodes": nodes, "precision": kind, "accelerator": accelerator}
        self.fabric = Fabric(strategy="ddp" if devices * nodes > 1 else "auto", **given)
        if devices * nodes > 1 and not self._is_cluster_started:
            self.fabric = Fabric(strategy="ddp_spawn", **given)

    def launch(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Calls work(engine, *arguments) in every process, and returns the result of the first one."""
        try:
            result, stopped = self.fabric.launch(partial(_call, work, arguments, make_flag()))
        except (ProcessExitedException, ProcessRaisedException) as error:
            if is_interrupted():  # Ctrl-C came before a process could listen
                raise Interrupted from error
            reason = str(error).strip().splitlines()[-1]  # the last line of a traceback, or the only line
            raise RunFailed(reason.removeprefix(f"{__name__}.RunFailed: ")) from error
        if stopped:
            raise Interrupted
        return result

    @property
    def is_first(self) -> bool:
        """Whether this process, before the launch, is the first one or the only one."""
        return not self._is_cluster_started or self.rank == 0

    @property
    def _is_cluster_started(self) -> bool:
        """Whether torchrun, SLURM or the like has started the processes already."""
        environment: Any = getattr(self.fabric.strategy, "cluster_environment", None)
        return environment is not None and bool(environment.creates_processes_externally)

    @property
    def processes(self) -> int:
        """The number of processes."""
        return int(self.fabric.world_size)

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return int(self.fabric.global_rank)

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self.fabric.device

    def setup_network(self, net: nn.Module) -> nn.Module:
        """Moves a network to the device and, in a group, keeps it in step with the other processes."""
        return self.fabric.setup_module(net, move_to_device=True)

    def setup_optimizer(self, optimizer: Optimizer) -> Optimizer:
        """Wraps an optimiser, so that its steps suit the precision."""
        prepared: Any = self.fabric.setup_optimizers(optimizer)  # one optimiser gives one back
        own: Optimizer = prepared
        return own

    def backward(self, loss: Tensor) -> None:
        """Computes gradients, averaged over processes."""
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
        """Scales a network's gradient down to the norm, where it is larger."""
        self.fabric.clip_gradients(net, optimizer, max_norm=norm, error_if_nonfinite=False)

    def seed(self, number: int) -> None:
        """Seeds the random numbers of layers such as dropout, with another seed in every process."""
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
        """The sum of each number over processes."""
        if self.processes > 1:
            dist.all_reduce(numbers)
        return numbers

    def align(self, net: nn.Module) -> None:
        """Gives every process the first one's buffers: running means, which each process takes over its own samples."""
        if self.processes > 1:
            for buffer in net.buffers():
                dist.broadcast(buffer, 0)

    def collect(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """The rows of all processes in order, on the host; ``sizes`` are the numbers of rows of each process."""
        return self.gather(rows, sizes).cpu()

    def gather(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """The rows of all processes in order, on the device; ``sizes`` are the numbers of rows of each process."""
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
    """The network itself, without the wrapper of `Engine.setup_network`."""
    from lightning_fabric.wrappers import _FabricModule

    return net.module if isinstance(net, _FabricModule) else net


def _call(work: Callable[..., Any], arguments: tuple[Any, ...], flag: Any, fabric: Fabric) -> tuple[Any, bool]:
    """Returns (result of the work, whether the user stopped it), as an exception would not leave the process whole."""
    hear(flag)
    engine = Engine.__new__(Engine)
    engine.fabric = fabric
    try:
        result = work(engine, *arguments), False
    except Interrupted:
        result = None, True
    if engine.rank > 0 and current_process().name != "MainProcess":
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # nobody asks for its result, and threads of its group may abort a process that ends step by step
    return result
