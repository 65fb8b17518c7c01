"""Trains PyTorch models on many GPUs with Vertex AI Pipelines: the library, and the command `vgp`.

The desk wing, what runs where you sit, from the top down; each room imports those below it only:

cli/         the verbs
api/         runs from Python
vertex/      runs, schedules, templates, images, preflight: what calls Google for you
workflow/    a workflow -> a spec; a spec -> a run on this machine; a new project
check/       any document -> findings
settings/    pipelines.toml, typed
machines/    a need -> one machine; prices

The run wing, what runs inside a step:

testing/     a task tested part by part
steps/       what each step calls
launch/      the ladder of machines that a job climbs
serve/       a model in use
decision/    the gate, the report, the release
registry/    versions of a model, and the champion
evaluation/  predictions, measures, rivals
train/       configuration, loop, checkpoints, processes
data/        the Task contract, sources, tables, splits
networks/    layers and models that tasks share

The ground floor, for both:

protocol/    what both wings must agree on
base/        errors, text, documents, files and stores, Google's clients
"""

__version__ = "0.1.0"
