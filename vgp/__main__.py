"""The command line: parse, one call, print.

vgp --help
python -m vgp --help
"""

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from vgp import __version__
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.printable import make_streams_tolerant, printable
from vgp.cli import extras
from vgp.cli.verbs import Verbs

EXIT_FAILED = 1

app = typer.Typer(
    cls=Verbs,
    help="Train PyTorch models on many GPUs with Vertex AI Pipelines: checked at the desk, run on a laptop first.",
    epilog="Start with: vgp run training --nproc 2\n\nExit codes: 0 done, 1 the work failed, 2 the request was wrong.",
    no_args_is_help=True,
    rich_markup_mode=None,  # Rich's help costs as much as all the rest of --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"vgp {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; expected errors become one message and an exit code."""
    if sys.stdout is sys.__stdout__:  # not in a caller that captures the output
        make_streams_tolerant()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        _refuse_broken(words)
        with extras.explain_missing_package():
            app([word for word in words if word != "--debug"], prog_name="vgp")
    except Exception as error:
        if debug:
            print(printable(traceback.format_exc()), file=sys.stderr)
        if isinstance(error, RequestError | WorkFailed):
            print(f"error: {printable(error)}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        print(
            f"error: {type(error).__name__}: {printable(error)}\nThis is a fault of ours: --debug shows the traceback.",
            file=sys.stderr,
        )
        raise SystemExit(EXIT_FAILED) from None


def former_name(arguments: Sequence[str] | None = None) -> None:
    """The command under the name that it had in version 0.1."""
    print("note: this command is called vgp now; the name pipelines goes with the next version.", file=sys.stderr)
    main(arguments)


def _refuse_broken(words: Sequence[str]) -> None:
    """Raises RequestError: an argument is not valid Unicode, so no service would accept it."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise RequestError(f"the argument {word!r} is not valid UTF-8.") from None


if __name__ == "__main__":
    main()
