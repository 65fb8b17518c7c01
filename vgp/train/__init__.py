"""Training: configuration, processes, the loop, checkpoints.

config.py             the settings of a training run
fit.py                one call that trains: checks, then starts the processes
mlflow_run.py         a run on an MLflow server: its curves while it trains, then its evaluation
mlflow_server.py      the server's REST API
profile.py            the steps and ranks that a profiler trace is asked of
reference.py          the settings as a table
weights.py            trained weights to begin with, ours or Hugging Face's: files and tensors
checkpoint/           checkpoints that commit like a database
loop/                 the training loop
processes/            one process per GPU
"""
