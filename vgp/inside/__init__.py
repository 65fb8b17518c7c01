"""The little of the tool that is part of a run: what components may import.

capacity/          the launcher of a step whose capacity is a ladder: one custom job after the other
experiment.py      a run as part of a Vertex AI experiment
following.py    Vertex AI's Model Registry brought after ours by the step that changed it
google_api.py      calls of Google's APIs from within a run
image.py           the name that stands in a component for the one image
imports.py         whose modules a process imports: those of the repository
job_steps.py       the steps of a run, from its PipelineJob
launching/         a user's own command, started on every machine of a job: travels as one text
model_plan.py      what is left to do there
model_registry.py  Vertex AI's Model Registry made equal to ours
model_service.py   the calls of Vertex AI that this takes
model_upload.py    one version as Vertex AI takes it
notify.py          the exit step: the summary written, printed and sent
page.py            the summary as Markdown
summary.py         what became of a run, as one value
webhook.py         a JSON body sent to an address of somebody's choice
"""
