"""Training: configuration, processes, the loop, checkpoints.

train_config.py       the settings of a training run
fit.py                `train`: checks the request, then starts the processes
mlflow_run.py         logs a run to an MLflow server: curves during training, then the evaluation
mlflow_server.py      a client for the server's REST API
profile_settings.py   parsers for the steps and ranks of a profiler trace
settings_table.py     the settings as a Markdown table
warm_start_files.py   the files and tensors of a warm start: this library's models or Hugging Face's
checkpoint/           checkpoints with an atomic commit
loop/                 the training loop
processes/            one process per GPU
"""
