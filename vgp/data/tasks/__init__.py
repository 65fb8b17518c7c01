"""The tasks of the library, and the loader of any task by its name or as `module:Class`.

files.py            copies files unchanged, for your own script
table/              reads a table that a task.toml declares
"""

import importlib
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType

from vgp.base.exits import UserError
from vgp.base.text.nearest import nearest
from vgp.base.text.printable import quote
from vgp.data import task_names
from vgp.data.task import Options, Task
from vgp.protocol.outcome import parse_operating_point

#: The message where a step needs rows and the task is `files`.
NO_ROWS = (
    "the task files copies files unchanged for your own script, but the built-in training needs rows. Name the script "
    "as command = [...] under [steps.train], or choose another task (flights, language_model, module:Class)."
)


def load(name: str, options: Options | None = None) -> Task:
    """Returns the task `name`: the short name of a built-in task, or `module:Class`.

    Raises:
        UserError: the module or class does not exist, or the class does not implement `vgp.data.task.Task`.
    """
    task = find(name)(options)
    parse_operating_point(task.operating_point)
    return task


def find(name: str) -> type[Task]:
    """Imports the class of a task and checks that it implements `Task`. Raises UserError as `load` does."""
    module_name, class_name = task_names.parts(name)
    return _check_class(name, _find_member(_import_module(name, module_name), class_name))


def _import_module(name: str, module_name: str) -> ModuleType:
    if os.getcwd() not in sys.path:  # for the user's module in the current folder, also in a child process
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not module_name.startswith(error.name):
            raise UserError(f"task {name!r}: {module_name} needs {error.name}, which is not installed.") from None
        raise UserError(f"task {name!r}: no module {module_name} on the Python path or in {os.getcwd()}.") from None
    except (SyntaxError, ImportError) as error:
        raise UserError(f"task {name!r}: {module_name} cannot be imported: {error}") from None


def _find_member(module: ModuleType, class_name: str) -> object:
    if not hasattr(module, class_name):
        near = nearest(class_name, [name for name, value in vars(module).items() if inspect.isclass(value)])
        hint = f" Did you mean {near}?" if near else ""
        raise UserError(f"{module.__name__} has no class {class_name}.{hint}")
    return getattr(module, class_name)


def _check_class(name: str, member: object) -> type[Task]:
    if not (inspect.isclass(member) and issubclass(member, Task)):
        raise UserError(f"task {name!r} is not a class derived from vgp.data.task.Task.")
    missing = sorted(member.__abstractmethods__)
    if member.predict is Task.predict and member.score is Task.score:
        missing.append("predict (or score)")
    if missing:
        raise UserError(f"task {name!r} lacks {', '.join(missing)}; the contract is vgp/data/task.py.")
    return member


# ---- a task that is a file on this machine: its text replaces the name in the options


ENDING = ".toml"


def is_file(task: str) -> bool:
    """Whether a task is given as a TOML file."""
    return task.strip().endswith(ENDING)


def file_options(task: str, options: Options, folder: str | Path = "") -> dict[str, object]:
    """Returns the options of the task `table` for a task.toml: the user's options and the text of the file.

    Args:
        options: The user's options.
        folder: The folder of a relative path; "" = the current folder.

    Raises:
        UserError: the file does not exist or is wrong, or the options already have a declaration.
    """
    from vgp.data.tasks.table.parsing import MOST_BYTES, parse

    path = Path(folder) / os.path.expanduser(task.strip())
    if "declaration" in options:
        raise UserError(f"task = {task} and task_options.declaration both declare the table: remove one of them.")
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        text = data.decode("utf-8-sig") if len(data) <= MOST_BYTES else data.decode(errors="replace")
    except FileNotFoundError:
        raise UserError(_missing_file_message(task, path)) from None
    except UnicodeDecodeError as error:
        raise UserError(f"task = {task}: the file is not UTF-8 text: {error.reason} at byte {error.start}.") from None
    except OSError as error:
        raise UserError(f"task = {task}: {error.strerror or error}.") from None
    parse(text, task.strip())
    return {**options, "declaration": text}


def _missing_file_message(task: str, path: Path) -> str:
    names = sorted(file.name for file in path.parent.glob(f"*{ENDING}")) if path.parent.is_dir() else []
    hint = f" The folder has {', '.join(names[:5])}." if names else ""
    return (
        f"task = {task}: no such file in {quote(str(path.parent.absolute()))}.{hint} To write one, run "
        "vgp new table DATA --target COLUMN."
    )
