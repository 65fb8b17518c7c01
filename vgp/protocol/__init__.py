"""What both wings must agree on: documents, folders, the launching text, and names.

cluster.py          where this process stands among machines, from CLUSTER_SPEC
commit.py           the commit of the code that a run was started from
environment.py      the environment variables by which desk, launchers and steps agree
file_names.py       the names of files that one step writes and another reads
imports.py          whose modules a process imports: those of the repository
job_steps.py        the steps of a run, from its PipelineJob
manifest.py         what the shards hold and where they came from
model_plan.py       what is left to do there
model_registry.py   Vertex AI's Model Registry made equal to ours
model_service.py    the calls of Vertex AI that this takes; one version as it takes it
moment.py           the moment that a run looks back from; the cache epoch
outcome.py          what a task predicts: classes, a likelihood, or a number; the rule of its threshold
pins.py             the three documents, data, champion and run, named by their checksum
placeholders.py     texts that Kubeflow Pipelines would replace; the name that stands for the one image
run_folder.py       where a run keeps things, told from the path of an output
spec_version.py     the version of a spec, and what a step refuses
summary.py          what became of a run, as one value
capacity/           a job and its launcher: ladder, signs of life, progress, who may run
launching/          the text that starts any script on every machine of a job"""
