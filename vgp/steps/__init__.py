"""What each step of a pipeline calls. Components and `python -m vgp.steps` use nothing else.

calls.py                what each step calls: resolve, prepare, train, collect, evaluate, decide, register
experiment.py           a run as part of a Vertex AI experiment
following.py            Vertex AI's Model Registry brought after ours by the step that changed it
notice.py               the exit step: the summary written, printed and sent
notice_page.py          the summary as Markdown
prediction.py           the steps of the workflow
retraining.py           what the step of the workflow calls
retraining_verdict.py   the decision, with its reason
run_request.py          what a run is asked for, checked before anything starts
pins/                   what a run works on, told once at its beginning
prediction_command.py   `python -m vgp.steps predict`
retraining_page.py      a page with the reason to train or not"""
