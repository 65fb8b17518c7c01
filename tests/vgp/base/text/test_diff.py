"""Unified diffs of texts in which lines are changed or new."""

import random

from vgp.base.whole_files import diff_lines


def test_a_diff_gives_the_new_text_back():
    random.seed(1)
    for _ in range(50):
        before = [random.choice("abc") for _ in range(random.randrange(30))]
        after = [word for line in before for word in random.choice([[line], [line], [line, "x"], ["y"]])]
        old, new = "\n".join(before), "\n".join(after)
        assert _applied(before or [""], list(diff_lines(old, new, "f"))) == new.split("\n")


def _applied(before, diff):
    """The lines after the diff, as patch makes them."""
    result, position = [], 0
    for line in diff[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1].split(",")[0][1:]) - 1
            result, position = result + before[position:start], start
            continue
        if line[0] in " -":
            assert before[position] == line[1:]
            position += 1
        result += [line[1:]] if line[0] in " +" else []
    return result + before[position:]


def test_a_new_line_is_one_line_of_the_diff():
    assert list(diff_lines("a\nb", "a\nx\nb", "f"))[2:] == ["@@ -1,2 +1,3 @@", " a", "+x", " b"]
