"""The names of files that one step or wing writes and another reads."""

#: Files of a model: the weights and the model card.
WEIGHTS, CARD = "model.safetensors", "model.json"
#: Files of an evaluation and of the decision.
PREDICTIONS, METRICS, DECISION, REPORT = "predictions.parquet", "metrics.json", "decision.json", "report.html"
#: The launcher's record of a script: its command, exit code and folder of checkpoints.
SCRIPT = "script.json"
#: The registry's record, the history of a capacity ladder, and the lease of a folder of checkpoints.
REGISTRY, LADDER, LEASE = "registry.json", "ladder.json", "lease.json"
#: Files of a local run: its spec, its request, its result, and kfp's output of each step.
PIPELINE, REQUEST, RUN, EXECUTOR_OUTPUT = "pipeline.json", "request.json", "run.json", "executor_output.json"
