"""Gives a process the bucket mount and the clock of a container on the loopback cloud; Python imports it at startup.

LOOPBACK_GCS    A folder that stands for /gcs, Vertex AI's mount of all buckets: KFP's paths of artifacts lie there, and
                the training reads them as gs://, so checkpoints go through the storage server. A file that a program
                writes below it stays a file.
LOOPBACK_CLOCK  "EPOCH MONOTONIC SPEED" of the cloud's clock, which replaces the real time. Sleeps and waits with a
                timeout become shorter; waits in C, such as those of a socket, take real time.
"""

import os
import sys


def hurry(epoch: float, began: float, speed: float) -> None:
    import time

    real, sleep = time.monotonic, time.sleep

    def passed() -> float:
        return (real() - began) * speed

    def ns(clock):  # type: ignore[no-untyped-def]
        return lambda: int(clock() * 1e9)

    time.time = lambda: epoch + passed()
    time.monotonic = time.perf_counter = lambda: began + passed()
    time.time_ns, time.monotonic_ns, time.perf_counter_ns = ns(time.time), ns(time.monotonic), ns(time.perf_counter)
    time.sleep = lambda seconds: sleep(seconds / speed)
    hurry_dates(time.time)
    hurry_waits(speed)


def hurry_dates(now) -> None:  # type: ignore[no-untyped-def]
    import datetime as module

    real = module.datetime

    class Kind(type(real)):  # type: ignore[misc]
        def __instancecheck__(self, value):  # type: ignore[no-untyped-def]
            return isinstance(value, real)

        def __subclasscheck__(self, kind):  # type: ignore[no-untyped-def]
            return issubclass(kind, real)

    class datetime(real, metaclass=Kind):
        @classmethod
        def now(cls, tz=None):  # type: ignore[no-untyped-def]
            return real.fromtimestamp(now(), tz)

        @classmethod
        def utcnow(cls):  # type: ignore[no-untyped-def]
            return real.fromtimestamp(now(), module.UTC).replace(tzinfo=None)

    module.datetime = datetime


def hurry_waits(speed: float) -> None:
    import select
    import threading

    def shorter(wait):  # type: ignore[no-untyped-def]
        return lambda self, timeout=None: wait(self, None if timeout is None else timeout / speed)

    threading.Condition.wait = shorter(threading.Condition.wait)
    real = select.select
    select.select = lambda r, w, x, timeout=None: real(r, w, x, None if timeout is None else timeout / speed)


def mount(folder: str) -> None:
    """Replaces /gcs/ by the folder in the modules that use it, when they are imported."""
    from importlib.abc import MetaPathFinder
    from importlib.machinery import PathFinder

    changes = {
        "kfp.dsl.types.artifact_types": lambda module: setattr(module, "_GCS_LOCAL_MOUNT_PREFIX", f"{folder}/"),
        "vgp.base.storage.storage": lambda module: setattr(module, "uri", map_paths(module.uri, folder)),
    }

    class Finder(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
            if name not in changes or not (spec := PathFinder.find_spec(name, path)) or not spec.loader:
                return None
            run, change = spec.loader.exec_module, changes[name]
            spec.loader.exec_module = lambda module: (run(module), change(module))  # type: ignore[method-assign]
            return spec

    sys.meta_path.insert(0, Finder())


def map_paths(uri, folder):  # type: ignore[no-untyped-def]
    return lambda path: uri(
        f"/gcs/{text.removeprefix(folder + '/')}" if (text := str(path)).startswith(f"{folder}/") else path
    )


if os.environ.get("LOOPBACK_GCS"):
    mount(os.environ["LOOPBACK_GCS"])
if os.environ.get("LOOPBACK_CLOCK"):
    hurry(*map(float, os.environ["LOOPBACK_CLOCK"].split()))
