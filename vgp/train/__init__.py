"""Training: configuration, processes, the loop, checkpoints.

checkpoint_place.py   where a step's checkpoints go, likewise
config.py             everything that a training run can be told
fit.py                one call that trains: checks, then starts the processes
profile.py            which steps and ranks a profiler trace is asked of
reference.py          the same as a table
weights.py            trained weights to begin with, ours or Hugging Face's: files and tensors
checkpoint/           checkpoints that commit like a database
loop/                 the training loop
processes/            one process per GPU
tracking/             an MLflow server that is told"""
