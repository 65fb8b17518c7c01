"""Imports kfp without its client, because kubernetes and Google's auth libraries take half of kfp's import time."""

import os
import sys

#: The variable that kfp sets inside running steps: `import kfp` then loads no subpackage.
_SWITCH = "_KFP_RUNTIME"


def load() -> None:
    """Imports kfp's compiler, components and dsl; must be called before any other import of kfp."""
    if "kfp" not in sys.modules:
        before = os.environ.get(_SWITCH)
        os.environ[_SWITCH] = "true"
        try:
            import kfp
        finally:
            del os.environ[_SWITCH]
            if before is not None:
                os.environ[_SWITCH] = before
    import kfp.compiler
    import kfp.components
    import kfp.dsl  # noqa: F401
