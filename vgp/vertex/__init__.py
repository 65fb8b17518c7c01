"""Vertex AI: whatever talks to Google Cloud.

A function that asks Google raises WorkFailed where Google refuses or cannot be reached (google_errors.py); its
docstring names the other errors.

clients.py            Google's generated clients, made from the settings; how long a call may take
rest.py               the APIs that have no generated REST client here
google_errors.py      Google's errors as what happened and what to do
permissions.py        which permission each call takes, which roles hold it, and who acts as a service account
patient_reads.py      reads that outlast the network
resource_names.py     resource names and links
registered_models.py  the registry of models asked for one verb, and Vertex AI's Model Registry brought after it
model_view.py         registered models as a person reads them
leftovers.py          the objects that runs left in the bucket, in groups, and the groups that are still needed
run_cleanup.py        `clean`: the groups that go, and their deletion; cleaning_view.py: as a person reads it
catalog_refresh.py    the catalog's prices and machine types from Google's APIs
runs/                 runs: started, found, followed, inspected, repeated, compared
schedules/            recurring runs: declared, planned, applied
templates/            workflows uploaded, and found again
images/               the one image of the steps, built and named
preflight/            what would stop a run, found before it costs money"""
