"""Vertex AI: all calls from the command line to Google Cloud.

A function that calls Google raises WorkFailed if Google refuses or cannot be reached (google_errors.py). Its docstring
names only the other errors.

clients.py            Google's generated clients, with the settings' endpoints; retries and timeouts of calls
rest.py               calls of APIs without a generated REST client
google_errors.py      Google's errors as messages: what happened, and what to do
permissions.py        the permissions and roles that each call needs; acting as a service account
patient_reads.py      reads that are retried until the network is back
resource_names.py     resource names and console links
registered_models.py  `models`: verbs of a registry of models; updates of Vertex AI's Model Registry
model_view.py         `models`: lists, versions and comparisons for the terminal
leftovers.py          the objects that runs left in the bucket, in groups, and the groups that are still needed
run_cleanup.py        `clean`: the plan of a cleanup, and the deletion
cleaning_view.py      `clean`: the plan for the terminal, and as JSON
spot_advice.py        asks Compute Engine for advice on Spot machines
catalog_refresh.py    `machines --refresh`: prices and machine types from Google's APIs
runs/                 runs: start, find, follow, show, rerun, compare
schedules/            recurring runs: declare, plan, apply
templates/            uploaded versions of workflows
images/               the image of the steps: build and name
preflight/            checks before a run costs money"""
