"""The steps: typed signatures over `vgp.steps`, no logic.

decide.py     evaluation -> promote or keep, with the reason and the report
evaluate.py   model, champion and baseline -> predictions and metrics
notify.py     the end of a run -> its summary, written and sent
predict.py    new data and a version of the model -> pins -> predictions
prepare.py    pinned data -> Parquet shards
register.py   the gate's word -> a version of the registry
resolve.py    the form -> what moves as pins, settings for the later steps, and whether to train at all
train.py      shards -> a model, by our training or by a script of your own

Every step runs in the same image, built from training/Dockerfile, which holds the library and kfp: nothing is installed
at run time. Its name is a setting (`image` in pipelines.toml) put in when a pipeline is built.
"""

from functools import partial

from kfp import dsl

from vgp.workflow import IMAGE

step = partial(dsl.component, base_image=IMAGE, install_kfp_package=False)
