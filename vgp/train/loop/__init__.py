"""The training loop, from the request to the finished model.

training_request.py  what a run is asked for: plan, settings, start
trainer.py       a run on one rank
monitor.py       where the ranks meet: losses, progress, decisions
saving.py        its checkpoints
interval.py      how often to save, by what it costs
resume.py        the checkpoint that it goes on from, and what differs where it goes on elsewhere
outcome.py       the model, its sample and the figures that it leaves
learner.py       model, optimizer, one step
building.py      the model that a rank trains, whole or its share: its seeds, its blocks recomputed or compiled
gradients.py     how gradients cross processes
use.py           which blocks and parameters of a sharded model a rank uses
trainer_state.py what no step number tells: named parts of every checkpoint, such as the average and the best weights
weighting.py     losses that are a sum and its weight; sums over microbatches and ranks
schedule.py      the learning rate of each step
optimizers.py    the task's optimizers as one, and the parameters that are frozen
buffers.py       buffers that a forward pass changes, each by its rule
process_counts.py whether microbatches can be assigned to so many processes, known without torch
order.py         which sample when, under which seed, on which rank
batches.py       microbatches, fed one block ahead
validation.py    the validation loss, and the task's own metrics
selection.py     which metric says what the best validation is
recording.py     what a model's constructor does to large weights, kept and done again
warm_start.py    trained weights to begin with
shards.py        a sharded model without the memory of its weights, which come in and leave one at a time
memory.py        how much is left
arithmetic.py    what is chosen where the configuration leaves it open, and the kernels for it
precision.py     float32, bfloat16 or float16, and the scale of a loss in float16
finite.py        gradients and states that are not finite
health.py        whether training can go on
curves.py        the learning curve, and TensorBoard
profiling.py     profiler traces of some steps
progress.py      what a person sees: throughput, the share of the GPU's peak, the rank that holds the others up"""
