"""`python -m vgp.steps models`: the command line of a registry. Every verb can be killed and repeated."""

import argparse
import json
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import exits

ROOT = "the folder of the registry: on this machine, or gs://bucket/folder"
MODEL = "the name of the model; default: the only one"
VERSION = "number of a version, or an alias such as champion"


def add(verbs: Any) -> None:
    """Adds the parser of `models` and its verbs."""
    models = verbs.add_parser("models", help="registered models: list, show, promote, roll back ...")
    subcommands = models.add_subparsers(dest="models", required=True)
    common, change = _common_options(), _change_options()
    subcommands.add_parser("list", parents=[common], help="list versions, the newest first")
    subcommands.add_parser("record", parents=[common], help="print the whole record, for programs")
    show = subcommands.add_parser("show", parents=[common], help="show a version and its history")
    show.add_argument("version", nargs="?", default="champion", help=f"{VERSION}; default: champion")
    compare = subcommands.add_parser("compare", parents=[common], help="compare versions")
    compare.add_argument("versions", nargs="+", help=VERSION)
    promote = subcommands.add_parser("promote", parents=[common, change], help="make a version the champion")
    promote.add_argument("version", help=VERSION)
    rollback = subcommands.add_parser("rollback", parents=[common, change], help="restore the previous champion")
    rollback.add_argument("--from", dest="expected", type=int, help="the number of the champion to roll back")
    alias = subcommands.add_parser("alias", parents=[common, change], help="give a version an alias")
    alias.add_argument("alias")
    alias.add_argument("version", help=VERSION)
    unalias = subcommands.add_parser("unalias", parents=[common, change], help="remove an alias")
    unalias.add_argument("alias")
    reject = subcommands.add_parser("reject", parents=[common, change], help="reject a version: it cannot be promoted")
    reject.add_argument("version", help=VERSION)
    delete = subcommands.add_parser("delete", parents=[common, change], help="delete the files of a version")
    delete.add_argument("version", help=VERSION)
    delete.add_argument("--dry-run", action="store_true", help="check the request; delete nothing")
    clean = subcommands.add_parser("clean", parents=[common], help="delete files that belong to no version")
    clean.add_argument("--dry-run", action="store_true", help="list the files; delete nothing")


def _common_options() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--registry", dest="root", required=True, metavar="ROOT", help=ROOT)
    common.add_argument("--model", default="", metavar="NAME", help=MODEL)
    common.add_argument("--json", action="store_true", help="print one JSON document")
    return common


def _change_options() -> argparse.ArgumentParser:
    change = argparse.ArgumentParser(add_help=False)
    change.add_argument("--account", default="", help="the user's Google account, kept in the history")
    change.add_argument("--why", default="", help="the reason, kept in the history")
    return change


@exits
def run(values: JsonObject) -> None:
    """Runs the parsed verb and prints the result."""
    from vgp.registry import record_view, verbs

    verb, as_json = values.pop("models"), values.pop("json")
    result = verbs.VERBS[verb](**values)
    print(json.dumps(result) if as_json else "\n".join(record_view.format_lines(result)))
