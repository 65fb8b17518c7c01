"""What the launch tests run in training processes."""

import os
import signal
import time

import torch
import torch.distributed as dist

from training.errors import Preempted, UserError


def add_ranks(argument, rank):
    total = torch.tensor([rank.rank + argument["plus"]])
    dist.all_reduce(total)
    return {"total": total.item(), "world_size": rank.world_size, "local_rank": rank.local_rank}


def pids(argument, rank):
    """Writes this process's id into the folder, then waits to be ended."""
    with open(os.path.join(argument["folder"], str(os.getpid())), "w"):
        pass
    while not rank.stopping:
        time.sleep(0.02)
    raise Preempted("asked to stop")


def deaf(argument, rank):
    print("not listening", flush=True)
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
