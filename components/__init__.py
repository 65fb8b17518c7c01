"""The steps: typed signatures that call `vgp.steps`, without logic.

decide.py     decides whether to promote the model, and writes the report
evaluate.py   scores model, champion and baseline on the test rows
notify.py     writes and sends the summary of a run at its end
predict.py    pins new data and a model version, and predicts the rows
prepare.py    writes pinned data as Parquet shards
register.py   registers a better model
resolve.py    checks the parameters, pins the inputs, and decides whether to train
train.py      trains the model, or collects the output of your own script

Every step runs in one image, built from training/Dockerfile, which contains the library and kfp, so nothing is
installed at run time. `vgp compile` inserts the image's name, `image` in pipelines.toml, into the spec.
"""

from functools import partial

from kfp import dsl

from vgp.workflow import IMAGE

step = partial(dsl.component, base_image=IMAGE, install_kfp_package=False)
