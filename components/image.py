"""The one image, and what a step is.

Every step runs in the same image, built from training/Dockerfile, which holds `training` and kfp: nothing is
installed at run time. Its name is a setting (`image` in pipelines.toml) put in when a pipeline is built.
"""

from functools import partial

from kfp import dsl

from vgp.protocol.image import IMAGE

step = partial(dsl.component, base_image=IMAGE, install_kfp_package=False)
