"""`python -m vgp.steps models`: shows and changes a registry; each verb can be killed and repeated."""

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
    models = verbs.add_parser("models", help="registered models -> which versions there are, and which one reigns")
    each = models.add_subparsers(dest="models", required=True)
    common, change = _common(), _change()
    each.add_parser("list", parents=[common], help="versions, the newest first")
    each.add_parser("record", parents=[common], help="the record as it is, for programs")
    show = each.add_parser("show", parents=[common], help="what a version is, since when, why, and what it replaced")
    show.add_argument("version", nargs="?", default="champion", help=f"{VERSION}; default: champion")
    compare = each.add_parser("compare", parents=[common], help="versions side by side")
    compare.add_argument("versions", nargs="+", help=VERSION)
    promote = each.add_parser("promote", parents=[common, change], help="the version as champion")
    promote.add_argument("version", help=VERSION)
    rollback = each.add_parser("rollback", parents=[common, change], help="the version that the champion replaced")
    rollback.add_argument("--from", dest="expected", type=int, help="the champion that is taken back")
    alias = each.add_parser("alias", parents=[common, change], help="a name for a version")
    alias.add_argument("alias")
    alias.add_argument("version", help=VERSION)
    unalias = each.add_parser("unalias", parents=[common, change], help="the name for none")
    unalias.add_argument("alias")
    for verb, words in (("reject", "the version never as champion"), ("delete", "a version's files, not its story")):
        made = each.add_parser(verb, parents=[common, change], help=words)
        made.add_argument("version", help=VERSION)
    made.add_argument("--dry-run", action="store_true", help="tell whether it may be; delete nothing")
    clean = each.add_parser("clean", parents=[common], help="copies of files that a kill left, and no version is")
    clean.add_argument("--dry-run", action="store_true", help="tell what would go; delete nothing")


def _common() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--registry", dest="root", required=True, metavar="ROOT", help=ROOT)
    common.add_argument("--model", default="", metavar="NAME", help=MODEL)
    common.add_argument("--json", action="store_true", help="print one JSON document")
    return common


def _change() -> argparse.ArgumentParser:
    change = argparse.ArgumentParser(add_help=False)
    change.add_argument("--account", default="", help="the account of the user, kept beside the name")
    change.add_argument("--why", default="", help="the reason, kept in the history")
    return change


@exits
def run(values: JsonObject) -> None:
    """Runs the parsed verb and prints the result."""
    from vgp.registry import shown, verbs

    verb, as_json = values.pop("models"), values.pop("json")
    told = verbs.VERBS[verb](**values)
    print(json.dumps(told) if as_json else "\n".join(shown.lines(told)))
