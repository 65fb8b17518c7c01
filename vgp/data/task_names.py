"""The names of tasks: short ones, `module:Class`, and those of earlier versions. Nothing is imported here."""

import importlib
import pkgutil
import re
import sys

from vgp.base.exits import UserError
from vgp.base.text.nearest import nearest
from vgp.base.text.printable import quoted

#: The tasks that the library brings.
SHIPPED = {"files": "vgp.data.tasks.files:Files", "table": "vgp.data.tasks.table.task:Table"}
#: The folder of a project whose files have short names: `flights` is the class Flights of training/tasks/flights.py.
PROJECT = "training.tasks"
#: What datasets, models and registries of version 0.1 say.
_EARLIER = {"training.tasks.files:Files": SHIPPED["files"], "training.tasks.table.task:Table": SHIPPED["table"]}
_SHORT = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def spec(name: str) -> str:
    """The full `module:Class` of a short name; other names as they are."""
    if name in SHIPPED:
        return SHIPPED[name]
    if _SHORT.fullmatch(name):
        return f"{PROJECT}.{name}:{''.join(word.capitalize() for word in name.split('_'))}"
    return _EARLIER.get(name, name)


def short(name: str) -> str:
    """The short name of a task; empty if it has none."""
    full = spec(name)
    found = next((each for each, shipped in SHIPPED.items() if shipped == full), "")
    module = full.partition(":")[0].removeprefix(f"{PROJECT}.")
    return found or (module if _SHORT.fullmatch(module) and spec(module) == full else "")


def trusted(named: str, file: str, chosen: str = "") -> str:
    """The task that a file names, if it may be loaded: the library's, the project's, chosen or imported by the caller.

    A file is not enough to import a module, for that runs its code; and files lie in folders that others may write.

    Raises:
        UserError: it names another task than the chosen one, or one that nobody but the file speaks for.
    """
    full = spec(named)
    module, _, member = full.partition(":")
    if chosen and spec(chosen) != full:
        raise UserError(f"{file} is of the task {quoted(named)}, not of {chosen}.")
    if not (
        chosen
        or short(full) in {*SHIPPED, *_in_project()}
        or member in getattr(sys.modules.get(module), "__dict__", {})
    ):
        raise UserError(
            f"{file} names the task {quoted(named)}, which is neither shipped nor in use here, and a file is not "
            f"enough to import a module. If you trust it: import {quoted(module)[1:-1]} first, or give the step its "
            "task (--task)."
        )
    return full


def parts(name: str) -> tuple[str, str]:
    """Module and class of a task's name; nothing is imported.

    Raises:
        UserError: it is neither a short name nor `module:Class`.
    """
    if name.strip().endswith(".toml"):
        raise UserError(
            f"task {name!r} is a file, which commands read where it lies: --set task=FILE.toml, --task FILE.toml. "
            "Elsewhere, such as in the console's form, give task = table and the text of the file as the option "
            'declaration: task_options = {"declaration": "..."}.'
        )
    module_name, colon, class_name = spec(name).partition(":")
    if name != spec(name) and name not in SHIPPED and name not in _EARLIER:
        _require_file(name)
    if not colon or not module_name or not class_name:
        raise UserError(
            f"task {name!r} is neither a short name, such as flights, nor of the form module:Class, such as "
            "my_package.my_task:MyTask."
        )
    return module_name, class_name


def _in_project() -> list[str]:
    """The short names that the project in use here has files for."""
    try:
        folder = importlib.import_module(PROJECT).__path__
    except ModuleNotFoundError:
        return []
    return sorted(each.name for each in pkgutil.iter_modules(folder))


def _require_file(name: str) -> None:
    """Raises UserError if the project has no file for a short name."""
    there = [*SHIPPED, *_in_project()]
    if name in there:
        return
    near = nearest(name, there)
    raise UserError(
        f"task {name!r} is neither a task of the library nor a file in {PROJECT.replace('.', '/')}/ "
        f"({', '.join(there)}).{f' Did you mean {near}?' if near else ''} Your own can lie anywhere: module:Class, "
        "such as my_package.my_task:MyTask."
    )
