"""The training loop, from the request to the finished model.

training_request.py  the request of a run: its plan, settings and start
trainer.py        a run on one rank
monitor.py        the meetings of the ranks: losses, progress, decisions
checkpoint_saving.py  the checkpoints of a run and the interval between them
initial_state.py  restores a checkpoint or loads the weights of a warm start
run_results.py    the results of a run: model, sample and figures
learner.py        model, optimizer, one step
model_building.py  builds the model on a rank, whole or sharded
tensor_recording.py  records the initialization of large weights, to repeat it later
gradients.py      exchanges gradients between processes
sharding.py       splits a model over the ranks (FSDP2)
block_usage.py    checks that all ranks use the same blocks of a sharded model
trainer_state.py  further state in every checkpoint, such as the average and the best weights
weighting.py      losses with a sum and a weight; sums over microbatches and ranks
optimizers.py     the task's optimizers as one, and the frozen parameters
buffers.py        combines buffers that a forward pass changes
attributes.py     keeps numbers and tensors outside of the state that a forward pass changes
sample_order.py   the samples, seeds, ranks and learning rates of every step
batches.py        feeds microbatches, one block ahead
validation.py     the validation loss and the task's metrics
validation_metric.py  the metric that selects the best validation
arithmetic.py     resolves `auto` settings, and sets kernels and compilation
precision.py      bfloat16, float16 and the modules that need float32
rounding.py       chooses what computes and is gathered in float32
dry_run.py        runs a loss without its weights
finite_checks.py  finds gradients and states that are not finite, and scales a loss in float16
health.py         ends a run with losses, gradients or states that are not finite
curves.py         the learning curve and TensorBoard
profiling.py      profiler traces, and GPU memory snapshots
progress_line.py  the progress line, throughput, and slow ranks
"""
