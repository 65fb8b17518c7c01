"""The wheel: `vgp` alone, and inside it what `pipelines new project` copies from this repository: one source of each.

`training`, `components` and `pipelines` are no packages of the wheel: a user's own may have these names.
"""

import shutil
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))

from vgp.workflow.project import originals


class Wheel(build_py):
    """The packages, and beside them the originals."""

    def run(self) -> None:
        if self.editable_mode:
            return super().run()
        shutil.rmtree(self.build_lib, ignore_errors=True)  # an earlier build's files would go into this wheel
        super().run()
        originals.copy(Path(self.build_lib) / "vgp" / "project" / originals.BUNDLED)


setup(cmdclass={"build_py": Wheel})
