"""The training loop, from the request to the finished model.

request.py       what a run is asked for: plan, settings, start
assignment.py    whether microbatches and processes go together
trainer.py       a run on one rank
monitor.py       where the ranks meet: losses, progress, decisions
saving.py        its checkpoints
interval.py      how often to save, by what it costs
resume.py        the checkpoint that it goes on from
landing.py       what differs where a run goes on elsewhere
outcome.py       the model and the figures that it leaves
learner.py       model, optimizer, one step
building.py      the model that a rank trains, whole or its share
seeding.py       the seeds of everything that draws
gathering.py     what every rank has, on every rank
finished.py      the trained model whole, and what it makes of itself
gradients.py     how gradients cross processes
use.py           which blocks and parameters of a sharded model a rank uses
trainer_state.py what no step number tells: named parts of every checkpoint
weighting.py     losses that are a sum and its weight
sums.py          sums over microbatches and ranks, in any order or along a tree
schedule.py      the learning rate of each step
optimizers.py    the task's optimizers as one
freezing.py      parameters that are not trained
buffers.py       buffers that a forward pass changes, each by its rule
order.py         which sample when, under which seed
batches.py       microbatches, fed one block ahead
validation.py    the validation loss, and the task's own metrics
selection.py     which metric says what the best validation is
best.py          the best validation: its value, its weights, and the patience
average.py       a moving average of the weights (EMA)
deferred.py      a model that is built without the memory of its weights
recording.py     what its constructor does to them, kept and done again
warm_start.py    trained weights to begin with
shards.py        weights of a sharded model come in and leave one at a time
memory.py        how much is left
arithmetic.py    what is chosen where the configuration leaves it open
precision.py     float32, bfloat16 or float16
scaler.py        the scale of a loss in float16
kernels.py       deterministic kernels or the fastest
finite.py        gradients and states that are not finite
health.py        whether training can go on
history.py       the learning curve
curves.py        TensorBoard
profiling.py     profiler traces of some steps
progress.py      what a person sees
pace.py          which rank holds the others up
accelerator.py   how fast a GPU can be, and the share used
blocks.py        blocks recomputed or compiled"""
