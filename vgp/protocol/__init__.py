"""The protocol between the command line and the steps: documents, folders, names, and the launching program.

cluster.py          the machines of a job and this process among them, from CLUSTER_SPEC
code_archive.py     the archive of a project's code that comes with a run
commit.py           the commit of the code of a run
environment.py      the environment variables of commands, launchers and steps
file_names.py       the names of files that one step writes and another reads
imports.py          imports of a workflow's modules from its repository
job_steps.py        the steps of a run, from its PipelineJob
manifest.py         the content and sources of a prepared dataset
model_plan.py       the steps to synchronise Vertex AI's Model Registry
model_registry.py   the synchronisation of Vertex AI's Model Registry
model_service.py    calls of Vertex AI's model service; a version in its format
moment.py           the moment at which a run reads its data; the cache epoch
outcome.py          outcomes of a task: classes, a likelihood, or a number; threshold rules
pins.py             the pins documents of data, champion and run, named by their checksum
placeholders.py     texts that Kubeflow Pipelines replaces; the placeholder of the image
run_folder.py       the folders of a run, from the path of an output
spec_version.py     the version of a spec, and which a step refuses
summary.py          the summary of a run
capacity/           a job and its launcher: ladder, heartbeat, progress
launching/          the program that starts a script on every machine of a job"""
