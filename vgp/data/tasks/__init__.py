"""The tasks that ship, and the way any task is found: `module:Class`.

files.py            any files as they are, for a script of the user's
table/              any table, as a task.toml of the user's declares it"""

import importlib
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType

from vgp.base.exits import UserError
from vgp.base.text.nearest import nearest
from vgp.base.text.printable import quoted
from vgp.data import task_names
from vgp.data.task import Options, Task
from vgp.protocol.outcome import parse_operating_point

#: What is said where rows are needed, and the task hands files on as they are.
NO_ROWS = (
    "the task files hands files on as they are, to a script of your own: our training and its models need rows. Give "
    "the script as command = [...] under [steps.train], or choose another task (flights, language_model, module:Class)."
)


def load(name: str, options: Options | None = None) -> Task:
    """The task called `name`: a shipped one by its short name, or any `module:Class` that can be imported.

    Raises:
        UserError: no such module or class, or the class does not fill the contract of `vgp.data.task.Task`.
    """
    task = find(name)(options)
    parse_operating_point(task.operating_point)
    return task


def find(name: str) -> type[Task]:
    module_name, class_name = task_names.parts(name)
    return _checked(name, _member(_module(name, module_name), class_name))


def _module(name: str, module_name: str) -> ModuleType:
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


def _member(module: ModuleType, class_name: str) -> object:
    if not hasattr(module, class_name):
        near = nearest(class_name, [name for name, value in vars(module).items() if inspect.isclass(value)])
        hint = f" Did you mean {near}?" if near else ""
        raise UserError(f"{module.__name__} has no class {class_name}.{hint}")
    return getattr(module, class_name)


def _checked(name: str, member: object) -> type[Task]:
    if not (inspect.isclass(member) and issubclass(member, Task)):
        raise UserError(f"task {name!r} is not a class derived from vgp.data.task.Task.")
    missing = sorted(member.__abstractmethods__)
    if member.predict is Task.predict and member.score is Task.score:
        missing.append("predict (or score)")
    if missing:
        raise UserError(f"task {name!r} lacks {', '.join(missing)}; the contract is vgp/data/task.py.")
    return member


# ---- a task that is a file on this machine: its text goes on in the place of its name


ENDING = ".toml"


def is_file(task: str) -> bool:
    """Whether the name of a task is that of a file."""
    return task.strip().endswith(ENDING)


def file_options(task: str, given: Options, folder: str | Path = "") -> dict[str, object]:
    """The options of the task `table` that a file stands for: its text, and those that were given beside it.

    Args:
        folder: What a relative path is relative to; "" = the current folder.

    Raises:
        UserError: there is no such file, it cannot be, or the options hold a declaration already.
    """
    from vgp.data.tasks.table.parsing import MOST_BYTES, parse

    path = Path(folder) / os.path.expanduser(task.strip())
    if "declaration" in given:
        raise UserError(f"task = {task} and task_options.declaration both say what the table is: give one of them.")
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        text = data.decode("utf-8-sig") if len(data) <= MOST_BYTES else data.decode(errors="replace")
    except FileNotFoundError:
        raise UserError(_absent(task, path)) from None
    except UnicodeDecodeError as error:
        raise UserError(f"task = {task}: the file is not UTF-8 text: {error.reason} at byte {error.start}.") from None
    except OSError as error:
        raise UserError(f"task = {task}: {error.strerror or error}.") from None
    parse(text, task.strip())
    return {**given, "declaration": text}


def _absent(task: str, path: Path) -> str:
    there = sorted(file.name for file in path.parent.glob(f"*{ENDING}")) if path.parent.is_dir() else []
    near = f" There is {', '.join(there[:5])}." if there else ""
    return (
        f"task = {task}: there is no such file in {quoted(str(path.parent.absolute()))}.{near} To have one written: "
        "vgp new table DATA --target COLUMN."
    )
