"""The wheel: the package `vgp`, and in it the originals that `vgp new project` writes: one source of each."""

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
        originals.copy(Path(self.build_lib) / "vgp" / "originals")


setup(cmdclass={"build_py": Wheel})
