"""The tasks that ship, and the way any task is found: `module:Class`.

files.py            any files as they are, for a script of the user's
task_file.py        a task that is a file on this machine, task.toml, as options of the task table
table/              any table, as a task.toml of the user's declares it"""

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from typing import Any

from vgp.base.exits import UserError
from vgp.base.printable import quoted
from vgp.data import operating
from vgp.data.task import Task

#: Short names for the tasks that ship.
SHIPPED = {
    "files": "vgp.data.tasks.files:Files",
    "flights": "training.tasks.flights:Flights",
    "language_model": "training.tasks.language_model:LanguageModel",
    "table": "vgp.data.tasks.table.task:Table",
}
#: What is said where rows are needed, and the task hands files on as they are.
NO_ROWS = (
    "the task files hands files on as they are, to a script of your own: our training and its models need rows. Give "
    "the script as command = [...] under [steps.train], or choose another task (flights, language_model, module:Class)."
)


def load(name: str, options: Mapping[str, Any] | None = None) -> Task:
    """The task called `name`: a shipped one by its short name, or any `module:Class` that can be imported.

    Raises:
        UserError: no such module or class, or the class does not fill the contract of `vgp.data.task.Task`.
    """
    task = find(name)(options)
    operating.parse(task.operating_point)
    return task


def spec(name: str) -> str:
    """The full `module:Class` of a short name; other names as they are."""
    return SHIPPED.get(name, name)


def trusted(named: str, file: str, chosen: str = "") -> str:
    """The task that a file names, if it may be loaded: one that ships, that the caller chose, or has imported.

    A file is not enough to import a module, for that runs its code; and files lie in folders that others may write.

    Raises:
        UserError: it names another task than the chosen one, or one that nobody but the file speaks for.
    """
    full = spec(named)
    module, _, member = full.partition(":")
    if chosen and spec(chosen) != full:
        raise UserError(f"{file} is of the task {quoted(named)}, not of {chosen}.")
    if not (chosen or full in SHIPPED.values() or member in getattr(sys.modules.get(module), "__dict__", {})):
        raise UserError(
            f"{file} names the task {quoted(named)}, which is neither shipped nor in use here, and a file is not "
            f"enough to import a module. If you trust it: import {quoted(module)[1:-1]} first, or give the step its "
            "task (--task)."
        )
    return full


def find(name: str) -> type[Task]:
    module_name, class_name = parts(name)
    return _checked(name, _member(_module(name, module_name), class_name))


def parts(name: str) -> tuple[str, str]:
    """Module and class of a task's name; nothing is imported.

    Raises:
        UserError: it is neither a shipped task's name nor `module:Class`.
    """
    if name.strip().endswith(".toml"):
        raise UserError(
            f"task {name!r} is a file, which commands read where it lies: --set task=FILE.toml, --task FILE.toml. "
            "Elsewhere, such as in the console's form, give task = table and the text of the file as the option "
            'declaration: task_options = {"declaration": "..."}.'
        )
    module_name, colon, class_name = spec(name).partition(":")
    if not colon or not module_name or not class_name:
        raise UserError(
            f"task {name!r} is neither a shipped task ({', '.join(SHIPPED)}) nor of the form module:Class, "
            "such as my_package.my_task:MyTask."
        )
    return module_name, class_name


def _module(name: str, module_name: str) -> Any:
    if os.getcwd() not in sys.path:  # a user's file lies where they work, also in a child process
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not module_name.startswith(error.name):
            raise UserError(f"task {name!r}: {module_name} needs {error.name}, which is not installed.") from None
        raise UserError(
            f"task {name!r}: there is no module {module_name} on the Python path or in {os.getcwd()}."
        ) from None
    except (SyntaxError, ImportError) as error:
        raise UserError(f"task {name!r}: {module_name} cannot be imported: {error}") from None


def _member(module: Any, class_name: str) -> Any:
    if not hasattr(module, class_name):
        near = difflib.get_close_matches(class_name, [n for n, v in vars(module).items() if inspect.isclass(v)], 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UserError(f"{module.__name__} has no class {class_name}.{hint}")
    return getattr(module, class_name)


def _checked(name: str, member: Any) -> type[Task]:
    if not (inspect.isclass(member) and issubclass(member, Task)):
        raise UserError(f"task {name!r} is not a class derived from vgp.data.task.Task.")
    missing = sorted(member.__abstractmethods__)
    if member.predict is Task.predict and member.score is Task.score:
        missing.append("predict (or score)")
    if missing:
        raise UserError(f"task {name!r} lacks {', '.join(missing)}; the contract is vgp/data/task.py.")
    return member
