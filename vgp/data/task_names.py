"""The names of tasks: short ones, `module:Class`, and those of earlier versions. Imports no task."""

import importlib
import pkgutil
import re
import sys

from vgp.base.exits import UserError
from vgp.base.text.nearest import nearest
from vgp.base.text.printable import quote

#: The tasks of the library.
SHIPPED = {"files": "vgp.data.tasks.files:Files", "table": "vgp.data.tasks.table.task:Table"}
#: The folder of a project whose files have short names: `flights` is the class Flights of training/tasks/flights.py.
PROJECT = "training.tasks"
#: The names in datasets, models and registries of version 0.1.
_EARLIER = {"training.tasks.files:Files": SHIPPED["files"], "training.tasks.table.task:Table": SHIPPED["table"]}
_SHORT = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def spec(name: str) -> str:
    """Returns the full `module:Class` of a short name, and other names unchanged."""
    if name in SHIPPED:
        return SHIPPED[name]
    if _SHORT.fullmatch(name):
        return f"{PROJECT}.{name}:{''.join(word.capitalize() for word in name.split('_'))}"
    return _EARLIER.get(name, name)


def short(name: str) -> str:
    """Returns the short name of a task; "" if it has none."""
    full = spec(name)
    shipped = next((key for key, value in SHIPPED.items() if value == full), "")
    module = full.partition(":")[0].removeprefix(f"{PROJECT}.")
    return shipped or (module if _SHORT.fullmatch(module) and spec(module) == full else "")


def require_trusted(named: str, file: str, chosen: str = "") -> str:
    """Returns the full name of a task that a file names, if it is safe to load.

    Safe are the tasks of the library and of the project, the task `chosen` by the caller, and classes of imported
    modules. A file alone is not enough, because an import runs code, and others may be able to write the file.

    Raises:
        UserError: The file names another task than the chosen one, or one that is not safe to load.
    """
    full = spec(named)
    module, _, member = full.partition(":")
    if chosen and spec(chosen) != full:
        raise UserError(f"{file} belongs to the task {quote(named)}, not to {chosen}.")
    if not (
        chosen
        or short(full) in {*SHIPPED, *_in_project()}
        or member in getattr(sys.modules.get(module), "__dict__", {})
    ):
        raise UserError(
            f"{file} names the task {quote(named)}, which is neither in the library or the project nor imported; it "
            "was not imported because that runs its code. If you trust it, import "
            f"{quote(module)[1:-1]} first, or pass --task to the step."
        )
    return full


def parts(name: str) -> tuple[str, str]:
    """Returns module and class of a task's name, without importing them.

    Raises:
        UserError: The name is neither a short name nor `module:Class`.
    """
    if name.strip().endswith(".toml"):
        raise UserError(
            f"task {name!r} is a file, which only commands can read: --set task=FILE.toml, --task FILE.toml. "
            "Elsewhere, such as in the console's form, set task = table and pass the text of the file as the option "
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
    """Returns the short names of the tasks in the current project."""
    try:
        folder = importlib.import_module(PROJECT).__path__
    except ModuleNotFoundError:
        return []
    return sorted(module.name for module in pkgutil.iter_modules(folder))


def _require_file(name: str) -> None:
    """Raises UserError if neither the library nor the project has a task of that short name."""
    names = [*SHIPPED, *_in_project()]
    if name in names:
        return
    near = nearest(name, names)
    raise UserError(
        f"task {name!r} is neither a task of the library nor a file in {PROJECT.replace('.', '/')}/ "
        f"({', '.join(names)}).{f' Did you mean {near}?' if near else ''} Name your own task in any module as "
        "module:Class, such as my_package.my_task:MyTask."
    )
