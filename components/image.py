"""The one image, and what a step is.

Every step runs in the same image, built from training/Dockerfile, which holds `training` and kfp: nothing is
installed at run time. Its name is a setting (`image` in pipelines.toml) put in when a pipeline is built.
"""

from functools import partial

from kfp import dsl

#: Stands in the components until `pipelines.placing` puts the configured image in its place: no image can be called so.
IMAGE = "<image of pipelines.toml>"

step = partial(dsl.component, base_image=IMAGE, install_kfp_package=False)
