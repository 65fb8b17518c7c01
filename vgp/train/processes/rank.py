"""One training process: its rank, its process group, and its end.

`vgp.train.processes.launcher` forks it; under torchrun it is the process itself.
"""

import contextlib
import ctypes
import faulthandler
import importlib
import inspect
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from pydantic import TypeAdapter

from vgp.base.documents.json_text import Json
from vgp.base.exits import (
    EXIT_FAILED,
    EXIT_PREEMPTED,
    EXIT_USER_ERROR,
    MachineLost,
    Preempted,
    ProcessFailed,
    UserError,
    is_store_down,
)
from vgp.protocol.cluster import Cluster, cores, gpu_count
from vgp.train.processes import gpu_readings, hang_diagnosis
from vgp.train.processes.hang_diagnosis import Trace
from vgp.train.processes.launched_rank import LaunchRequest
from vgp.train.processes.launcher_control import await_chief, publish_finish

T = TypeVar("T")

#: Errors of a rank whose peer is missing or gone; never the cause of a failure.
_LATE = ("socket timeout", "timed out waiting", "wait timeout after")
_GONE = ("connection closed by peer", "connection reset", "connection refused", "broken pipe",
         "nccl communicator was aborted", "remote process exited")  # fmt: skip
#: A rank that reads files more slowly counts as stopped.
SLOWEST_BYTES_PER_S = 10e6


class Late(RuntimeError):
    """A rank did not arrive at an exchange in time."""


@dataclass
class Rank:
    """A training process's place among the others, and its means to talk to them."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    device: torch.device
    #: The key-value store on the chief.
    rendezvous: dist.Store = field(init=False)
    #: Whether stderr is a terminal.
    terminal: bool = False
    #: Set by SIGTERM or SIGINT; the ranks agree on a step at which they stop.
    stopping: bool = False
    #: This rank's step and stage, for the launcher.
    trace: Trace = field(default_factory=Trace)
    _agreements: int = 0
    _exchanges: int = 0

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, the only process that writes artifacts."""
        return self.rank == 0

    def another_rendezvous(self) -> dist.Store:
        """Returns a second connection to the store, for a thread that waits on it."""
        store: Any = self.rendezvous  # torch's stub lacks `clone`
        connection: dist.Store = store.clone()
        return connection

    def agree(self, value: T) -> T:
        """Returns the `value` (JSON) of rank 0 on every rank; all ranks must call it."""
        self._agreements += 1
        key = f"agreement/{self._agreements}"
        if self.leads:
            self.rendezvous.set(key, json.dumps(value))
        agreed: T = json.loads(self.rendezvous.get(key))
        return agreed

    def exchange(self, value: T, *, within_s: float) -> list[T]:
        """Returns the `value` (JSON) of every rank, by rank; all ranks must call it.

        Use it instead of a collective if one rank may work for long: a collective's timeout would end the others.

        Raises:
            Late: a rank did not call it within `within_s` seconds.
        """
        self._exchanges += 1
        keys = [f"exchange/{self._exchanges}/{rank}" for rank in range(self.world_size)]
        self.rendezvous.set(keys[self.rank], json.dumps(value))
        try:
            self.rendezvous.wait(keys, timedelta(seconds=within_s))
        except dist.DistStoreError:
            missing = [str(rank) for rank, key in enumerate(keys) if not self.rendezvous.check([key])]
            if missing:  # empty if the last rank has arrived meanwhile
                raise Late(f"timed out waiting {within_s:g} s for rank {', '.join(missing)}") from None
        if self._exchanges > 1:  # all ranks have read the previous exchange
            self.rendezvous.delete_key(f"exchange/{self._exchanges - 1}/{self.rank}")
        return [json.loads(text) for text in self.rendezvous.multi_get(keys)]


def call_target(target: str, argument: str, rank: Rank) -> Json:
    """Calls the target with the rank and the argument, parsed as the annotation of its first parameter."""
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    kind = next(iter(inspect.signature(function).parameters.values())).annotation
    untyped = kind is inspect.Parameter.empty or isinstance(kind, str)
    value: Json = function(TypeAdapter(Any if untyped else kind).validate_json(argument), rank)
    return value


def run_as_rank(
    target: str, argument: str, environment: Mapping[str, str], *, timeout_s: float, hang_after_s: float
) -> Json:
    """Runs the target in this process, a rank that torchrun has started."""
    local_rank, local_world_size = int(environment["LOCAL_RANK"]), int(environment.get("LOCAL_WORLD_SIZE", "1"))
    rank = _rank(int(environment["RANK"]), int(environment["WORLD_SIZE"]), local_rank, local_world_size)
    _catch_signals(rank)
    store = dist.TCPStore(environment["MASTER_ADDR"], int(environment["MASTER_PORT"]), rank.world_size,
                          is_master=rank.leads and environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
                          wait_for_workers=False)  # fmt: skip
    attempt = environment.get("TORCHELASTIC_RESTART_COUNT", "0")  # the agent's store outlives it
    _join(rank, dist.PrefixStore(f"attempt-{attempt}", store), timeout_s, hang_after_s)
    try:
        value = call_target(target, argument, rank)
        _leave(rank, hang_after_s)
        return value if rank.leads else None
    finally:
        dist.destroy_process_group()


def run_child(
    request: LaunchRequest, launcher: int, local_rank: int, events: int, listener: int | None, trace: Trace
) -> int:
    """Runs the target in a forked rank, sends its ending to the launcher, and returns the exit code."""
    die_with(launcher)
    faulthandler.enable()
    trace.listen()
    place, nproc, hang_after_s = request.cluster, request.nproc, request.hang_after_s
    rank = _rank(request.first_rank + local_rank, request.world_size, local_rank, nproc)
    rank.trace = trace
    rank.terminal = request.terminal
    _catch_signals(rank)
    os.environ.update(RANK=str(rank.rank), WORLD_SIZE=str(rank.world_size), LOCAL_RANK=str(local_rank),
                      LOCAL_WORLD_SIZE=str(nproc), MASTER_ADDR=place.chief, MASTER_PORT=str(place.port))  # fmt: skip
    try:
        timeout_s = request.rendezvous_timeout_s
        _join(rank, _store(rank, place, listener, timeout_s), timeout_s, hang_after_s)
        value = call_target(request.target, request.argument, rank)
        _leave(rank, hang_after_s)
        _send(events, kind="value", value=value if rank.leads else None)
        if rank.leads:
            publish_finish(rank.rendezvous, place)
        return 0
    except UserError as error:
        _send(events, kind="store_down" if is_store_down(error) else "user_error", text=str(error), known=True)
        return _linger(rank, EXIT_USER_ERROR)
    except Preempted as stop:
        _send(events, kind="preempted", text=str(stop))
        with contextlib.suppress(RuntimeError):  # the state is saved even if the others leave out of order
            _leave(rank, hang_after_s)
        return EXIT_PREEMPTED
    except ProcessFailed as failure:
        lost = "lost" if isinstance(failure, MachineLost) else "failed"
        kind = "store_down" if is_store_down(failure) else lost
        _send(events, kind=kind, text=str(failure), bystander=False, known=True)
        return _linger(rank, EXIT_FAILED)
    except SystemExit as error:
        _send(events, kind="failed", text=f"SystemExit: {error.code}", bystander=False)
        return _linger(rank, error.code if isinstance(error.code, int) else EXIT_FAILED)
    except BaseException as error:
        if is_store_down(error):
            _send(events, kind="store_down", text=str(error), bystander=False, known=True)
            return _linger(rank, EXIT_FAILED)
        text = "".join(traceback.format_exception(error.with_traceback(_own_frames(error))))
        if _has_sign(error, _LATE) and not isinstance(error, Late):
            with contextlib.suppress(OSError):
                hang_diagnosis.dump_flight(rank.rank)
        gone = isinstance(error, dist.DistNetworkError) or _has_sign(error, _LATE + _GONE)
        _send(events, kind="failed", text=text, bystander=gone, late=_has_sign(error, _LATE))
        return _linger(rank, EXIT_FAILED)


def die_with(parent: int) -> None:
    """Makes the kernel kill this process when its parent dies in any way (Linux; prctl(2))."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call
        os._exit(EXIT_FAILED)


def _rank(rank: int, world_size: int, local_rank: int, local_world_size: int) -> Rank:
    torch.set_num_threads(max(1, cores() // local_world_size))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        if "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:  # read when CUDA starts; reduces fragmentation
            os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    return Rank(rank, world_size, local_rank, local_world_size, device)


def _catch_signals(rank: Rank) -> None:
    def stop(number: int, frame: object) -> None:
        rank.stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _store(rank: Rank, place: Cluster, listener: int | None, timeout_s: float) -> dist.TCPStore:
    """Connects to the rendezvous on the chief. Raises MachineLost if the chief does not come."""
    if place.node:
        await_chief(place, timeout_s)
    return dist.TCPStore(
        place.chief, place.port, rank.world_size, is_master=rank.leads, timeout=timedelta(seconds=timeout_s),
        wait_for_workers=False, master_listen_fd=listener if rank.leads else None,
    )  # fmt: skip


def _join(rank: Rank, store: dist.Store, timeout_s: float, hang_after_s: float) -> None:
    """Waits for all ranks and creates the process group. Raises UserError or MachineLost."""
    rank.rendezvous = store
    gpu_readings.require_usable(rank.device, gpu_count(os.environ))
    chief_counts = rank.agree(rank.world_size)
    if chief_counts != rank.world_size:
        raise UserError(
            f"this machine counts {rank.world_size} processes in all, the chief {chief_counts}: "
            "every machine needs the same number of GPUs or the same nproc."
        )
    try:
        rank.exchange(None, within_s=timeout_s)  # waits for machines that come up minutes apart
    except Late as late:
        raise MachineLost(f"{late} at the start (rendezvous_timeout_s)") from None
    store.set_timeout(timedelta(seconds=hang_after_s))
    if rank.local_world_size == rank.world_size and rank.device.type == "cpu" and sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # avoids a lookup of the host's name on one machine
    backend = "cpu:gloo,cuda:nccl" if rank.device.type == "cuda" else "gloo"
    dist.init_process_group(
        backend, store=store, rank=rank.rank, world_size=rank.world_size, timeout=timedelta(seconds=hang_after_s),
        device_id=rank.device if rank.device.type == "cuda" else None,
    )  # fmt: skip


def _leave(rank: Rank, hang_after_s: float) -> None:
    """Marks that the rank has left. Rank 0 waits for all, since it holds the rendezvous; nothing waits for rank 0."""
    rank.rendezvous.set(f"left/{rank.rank}", "")
    if rank.leads:
        rank.rendezvous.wait([f"left/{other}" for other in range(rank.world_size)], timedelta(seconds=hang_after_s))


def _linger(rank: Rank, code: int) -> int:
    """Keeps the rendezvous up after a failure, so that other machines can read it, until the launcher ends it."""
    if rank.leads and rank.local_world_size < rank.world_size:
        time.sleep(60)
    return code


def _has_sign(error: BaseException, signs: tuple[str, ...]) -> bool:
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in signs)


def _own_frames(error: BaseException) -> TracebackType | None:
    """Returns the traceback without the outer frames of this file."""
    frames = error.__traceback__
    while frames and frames.tb_next and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return frames


def _send(events: int, **ending: Json) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(events, json.dumps(ending).encode() + b"\n")
