"""The work itself: ordinary Python and PyTorch, baked into the image. Knows neither kfp nor the tool.

steps.py       what each step calls: resolve, prepare, train, collect, evaluate, decide, register
run_folder.py  where a run keeps things, told from the path of an output
checkpoint_place.py  where a step's checkpoints go, likewise
__main__.py    the same from a shell
task.py        the contract between the product and a user's model
outcome.py     what a task predicts: classes, a likelihood, or a number
fit.py         one call that trains: checks, then starts the processes
config.py      everything that a training run can be told
reference.py   the same as a table
profile.py     which steps and ranks a profiler trace is asked of
options.py     the options of a task: what it knows, and what is near
bundle.py      a trained model as a folder: weights and card
weights.py     trained weights to begin with, ours or Hugging Face's: files and tensors
errors.py      how work ends: exit codes, and the error that is the user's to fix
printable.py   somebody else's text in a message
tasks/         the tasks that ship, and how any is found
models/        networks
capacity/      a job and its launcher: who may run, signs of life, progress
pins/          what a run works on, told once at its beginning
data/          raw input -> checked, split, fixed-width shards -> rows
processes/     one process per GPU
loop/          the training loop
checkpoint/    checkpoints that commit like a database
evaluation/    predictions, measures, the paired test
script/        what a script of the user's left, read and judged
registry/      versions of a model, who reigns, and since when
prediction/    new rows -> what a model says of them
release/       a better model becomes a version: copied, checked, champion
serving/       a model behind HTTP, as Vertex AI's endpoints call it
report/        one page of HTML
testing/       a task tested part by part
tracking/      an MLflow server that is told
storage/       files here and objects in Cloud Storage
"""
