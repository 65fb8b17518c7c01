"""What the launch tests run in training processes."""

import ctypes
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import torch
import torch.distributed as dist
from pydantic import BaseModel, ConfigDict, ValidationError

from vgp.base.exits import Preempted, UserError


class Parts(BaseModel):
    model_config = ConfigDict(frozen=True)

    parts: tuple[int, ...]


def add_parts(argument: Parts, rank):
    frozen = False
    try:
        argument.parts = ()
    except ValidationError:
        frozen = True
    return {"sum": sum(argument.parts), "type": type(argument).__name__, "frozen": frozen}


def add_ranks(argument, rank):
    total = torch.tensor([rank.rank + argument["plus"]])
    dist.all_reduce(total)
    return {"total": total.item(), "world_size": rank.world_size, "local_rank": rank.local_rank}


def add_ranks_then_work_alone(argument, rank):
    """Rank 0 writes a file when the others leave, and returns once that is gone."""
    found = add_ranks(argument, rank)
    if rank.leads:
        file = Path(argument["file"])
        file.touch()
        while file.exists():
            time.sleep(0.05)
    return found


def pids(argument, rank):
    """Writes this process's id into the folder, then waits to be ended."""
    with open(os.path.join(argument["folder"], str(os.getpid())), "w"):
        pass
    while not rank.stopping:
        time.sleep(0.02)
    raise Preempted("asked to stop")


def deaf(argument, rank):
    if argument:
        Path(argument["folder"], str(os.getpid())).touch()
    time.sleep(600)


def raising(argument, rank):
    dist.barrier()
    if rank.rank == argument["who"]:
        raise ArithmeticError("one is not two")
    dist.barrier()


def mistaken(argument, rank):
    dist.barrier()
    if rank.rank == 1:
        raise UserError("the learning rate is a banana")
    dist.barrier()


def killed(argument, rank):
    dist.barrier()
    if rank.rank == 1:
        print("my last words")
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def crashing(argument, rank):
    os.kill(os.getpid(), signal.SIGSEGV)


def exiting(argument, rank):
    dist.barrier()
    if rank.rank == 1:
        os._exit(41)
    dist.barrier()


def waiting(argument, rank):
    with open(os.path.join(argument["folder"], str(os.getpid())), "w"):
        pass
    while True:
        dist.barrier()
        time.sleep(0.1)


def meeting(argument, rank):
    """The first rank never comes to where the others meet."""
    with open(os.path.join(argument["folder"], str(os.getpid())), "w"):
        pass
    if not rank.leads:
        rank.exchange(None, within_s=600)
    time.sleep(600)


def stuck(argument, rank):
    """Ranks are caught in ways that `argument` names by rank; the others wait for them in a collective."""
    dist.barrier()
    rank.trace.mark(41, "the forward pass")
    ways = {"C": caught_in_c, "stopped": stopped, "loader": wait_for_a_thread, "NCCL": abort_like_nccl}
    ways.get(argument.get(str(rank.rank)), int)()
    rank.trace.mark(41, "the backward pass")
    dist.barrier()


def caught_in_c():
    """A call that never returns, and holds the interpreter's lock meanwhile."""
    Path("/proc/self/comm").write_text("in_c")
    read, _ = os.pipe()
    ctypes.PyDLL(None).read(read, ctypes.create_string_buffer(1), 1)


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


def wait_for_a_thread():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(load_for_ever).result()


def load_for_ever():
    time.sleep(600)


def abort_like_nccl():
    """Ends as a rank that waits on a GPU: NCCL's watchdog reports it and aborts, and Python then writes its stack."""
    launcher = psutil.Process(os.getppid())
    states = {"stopped": False, "in_c": False}
    while not all(states.values()):
        for child in launcher.children():
            states["stopped"] |= child.status() == psutil.STATUS_STOPPED
            states["in_c"] |= (child.name(), child.status()) == ("in_c", psutil.STATUS_SLEEPING)
        time.sleep(0.05)
    os.write(2, b"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)\n")
    os.abort()
