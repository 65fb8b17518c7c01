"""What each step of a pipeline calls. Components and `python -m vgp.steps` use nothing else.

calls.py                what each step calls: resolve, prepare, train, collect, evaluate, decide, register
experiment.py           a run as part of a Vertex AI experiment
following.py            Vertex AI's Model Registry brought after ours by the step that changed it
notice.py               the exit step: the summary written, printed and sent
notice_page.py          the summary as Markdown
prediction.py           the steps of the workflow
retraining_verdict.py   the decision, with its reason
form.py                 what a workflow file says of its form to commands
resolution.py           the first step: pins, settings for the later steps, the decision
run_request.py          the form read into typed settings, checked before anything starts
pins/                   what a run works on, told once at its beginning
prediction_command.py   `python -m vgp.steps predict`
retraining_page.py      a page with the reason to train or not"""
