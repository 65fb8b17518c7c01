"""The training loop, from the request to the finished model.

training_request.py  what a run is asked for: plan, settings, start
trainer.py        a run on one rank
monitor.py        where the ranks meet: losses, progress, decisions
saving.py         its checkpoints, and how often, by what a save costs
initial_state.py  the checkpoint that it goes on from, or the trained weights that it begins with
outcome.py        the model, its sample and the figures that it leaves
learner.py        model, optimizer, one step
building.py       the model that a rank trains, whole or its share, without the memory of the whole
recording.py      what a model's constructor does to large weights, kept and done again
gradients.py      how gradients cross processes
use.py            which blocks and parameters of a sharded model a rank uses
trainer_state.py  what no step number tells: named parts of every checkpoint, such as the average and the best weights
weighting.py      losses that are a sum and its weight; sums over microbatches and ranks
optimizers.py     the task's optimizers as one, and the parameters that are frozen
buffers.py        buffers that a forward pass changes, each by its rule
order.py          which sample when, under which seed, on which rank, at which learning rate
batches.py        microbatches, fed one block ahead
validation.py     the validation loss, and the task's own metrics
selection.py      which metric says what the best validation is
arithmetic.py     what is chosen where the configuration leaves it open, and the kernels and compilation for it
precision.py      float32, bfloat16 or float16, and what must stay in float32
finite.py         gradients and states that are not finite, and the scale of a loss in float16
health.py         whether training can go on
curves.py         the learning curve, and TensorBoard
profiling.py      profiler traces of some steps; a GPU's memory when none is left
progress.py       what a person sees: throughput, the share of the GPU's peak, the rank that holds the others up
"""
