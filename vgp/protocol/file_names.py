"""The names of files that one step or wing writes and another reads."""

#: Of a model: its weights and its card.
WEIGHTS, CARD = "model.safetensors", "model.json"
#: Of an evaluation, and of the decision on it.
PREDICTIONS, METRICS, DECISION, REPORT = "predictions.parquet", "metrics.json", "decision.json", "report.html"
#: What the launcher of a script leaves beside its model: what was started, and where the checkpoints are.
SCRIPT = "script.json"
#: The registry's record, the journal of a ladder, and who writes to a folder of checkpoints.
REGISTRY, LADDER, LEASE = "registry.json", "ladder.json", "lease.json"
#: Of a run on this machine: its spec, what was asked for, its result; and what kfp writes of each step.
PIPELINE, REQUEST, RUN, EXECUTOR_OUTPUT = "pipeline.json", "request.json", "run.json", "executor_output.json"
