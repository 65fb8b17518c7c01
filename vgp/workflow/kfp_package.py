"""kfp without its client, which nothing here calls: kubernetes and Google's auth are half of the cost of its import."""

import os
import sys

#: kfp's own switch for steps that run: the package itself then imports no room of it.
_SWITCH = "_KFP_RUNTIME"


def load() -> None:
    """Imports kfp's language, compiler and components; call it before whatever else imports kfp."""
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
