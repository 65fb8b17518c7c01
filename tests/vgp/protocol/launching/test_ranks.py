"""Which processes a node has, and that a command which cannot start is refused."""

from collections.abc import Mapping

import pytest

from .conftest import Launcher, Script, ranks, spec


def test_a_role_that_a_launch_does_not_have_starts_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    cluster = {"workerpool0": ["a:1"], "workerpool2": ["b:1"]}
    assert ranks("torchrun", CLUSTER_SPEC=spec("workerpool2", **cluster)) == []
    assert "ps 0 starts nothing: launch = 'torchrun' has no such role." in capfd.readouterr().err


@pytest.mark.parametrize(
    "command, variables, sentence",
    [
        (["no-such-program"], {}, "the command 'no-such-program' does not exist"),
        (["true"], {"TRAINING_NODES": "two"}, "TRAINING_NODES='two': write a whole number of at least 1"),
        (["true"], {"TRAINING_NPROC": "0"}, "TRAINING_NPROC='0'"),
        (["true"], {"CLUSTER_SPEC": '{"cluster": {}}'}, "CLUSTER_SPEC cannot be read (KeyError: 'task')"),
        (["true"], {"CLUSTER_SPEC": spec(index=1, workerpool0=["a:1"])}, "there is no task 1 of workerpool0"),
        ([], {}, "the command is missing"),
    ],
)
def test_a_wrong_request_is_one_sentence_before_anything_starts(
    launcher: Launcher, command: Script, variables: Mapping[str, str], sentence: str
) -> None:
    code, out, err = launcher.run(command, "torchrun", **variables)
    assert (code, out) == (2, "") and sentence in err and "Traceback" not in err
    assert not (launcher.folder / "model").exists()


def test_a_script_without_a_first_line_is_named_with_its_cure(launcher: Launcher) -> None:
    text = launcher.folder / "train.sh"
    text.write_text("echo hello\n")
    text.chmod(0o755)
    code, _, err = launcher.run([str(text)])
    assert code == 2 and 'it has no first line "#!..."; write ["sh", ...]' in err
