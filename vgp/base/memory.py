"""The memory available to this process."""

from pathlib import Path


def free_bytes() -> int:
    """Returns the available bytes, within the limit of the container; 2**62 where the system does not report them.

    proc(5), and https://docs.kernel.org/admin-guide/cgroup-v2.html
    """
    free = [1 << 62]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
        group = Path("/sys/fs/cgroup")
        free.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):  # not Linux, or no limit
        pass
    return min(free)
