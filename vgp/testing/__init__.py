"""A task tested part by part, in pytest or a notebook: on a few rows, in this process, in seconds.

from vgp.testing import prepared

def test_my_task():
    parts = prepared(MyTask, "small.csv")
    parts.check()

prepared.py   a few rows as the pipeline would prepare them
parts.py      one batch, one loss, predictions, the whole check
learning.py   gradients, and whether the model can learn a few rows by heart; the error of a part that does not hold"""

from vgp.testing.learning import Failed
from vgp.testing.parts import Parts
from vgp.testing.prepared import prepared

__all__ = ["Failed", "Parts", "prepared"]
