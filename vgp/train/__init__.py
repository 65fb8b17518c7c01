"""Training: configuration, processes, the loop, checkpoints.

config.py             the settings of a training run
fit.py                `train`: checks the request, then starts the processes
mlflow_run.py         logs a run to an MLflow server: curves during training, then the evaluation
mlflow_server.py      a client for the server's REST API
profile.py            parsers for the steps and ranks of a profiler trace
reference.py          the settings as a Markdown table
weights.py            the files and tensors of a warm start: this library's models or Hugging Face's
checkpoint/           checkpoints with an atomic commit
loop/                 the training loop
processes/            one process per GPU
"""
