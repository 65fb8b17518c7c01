"""The steps: typed signatures over `training`, one per file, no logic.

collect.py    what a user's own script left -> a model
decide.py     evaluation -> promote or keep, with the reason and the report
evaluate.py   model, champion and baseline -> predictions and metrics
image.py      the one image, and what a step is
notify.py     the end of a run -> its summary, written and sent
predict.py    pinned new data -> the predictions of a version of the model
prepare.py    pinned data -> Parquet shards
register.py   the gate's word -> a version of the registry
resolve.py    what moves -> pins
resolve_prediction.py   the same for a prediction: data and a version of the model
resolve_retraining.py   the same, and whether to train at all
train.py      shards -> a model
"""
