import pytest

from vgp.base.exits import UserError, exits
from vgp.base.text.printable import join_names, printable, quote, report


def test_no_control_character_of_a_message_reaches_the_terminal(capsys):
    @exits
    def step():
        raise UserError("the key \x1b]0;owned\x07 of the file\nhas two lines\t and a tab\x9b2J")

    with pytest.raises(SystemExit):
        step()
    printed = capsys.readouterr().err
    assert printed == "error: the key \\x1b]0;owned\\x07 of the file\nhas two lines    and a tab\\x9b2J\n"
    assert printable("ä 東") == "ä 東"


def test_much_text_is_cut_and_odd_names_are_quoted():
    assert quote("a" * 1000) == repr("a" * 80 + "...")
    assert join_names(["n", "price;tax", "", "a\tb", "x" * 100]) == f"n, price;tax, '', 'a\\tb', {'x' * 80 + '...'!r}"
    assert join_names([f"c{i}" for i in range(100_000)]).endswith("c19 and 99,980 more")


def test_what_is_no_error_goes_to_stdout_on_vertex_whose_log_has_stderr_as_errors(capsys, monkeypatch):
    report("step 1/9")
    assert capsys.readouterr() == ("", "step 1/9\n")
    monkeypatch.setenv("CLOUD_ML_JOB_ID", "7")
    report("step 2/9")
    report("warning: a disk is slow")
    assert capsys.readouterr() == ("step 2/9\n", "warning: a disk is slow\n")
