"""Vertex AI: whatever talks to Google Cloud.

clients.py            Google's generated clients, made from the settings; how long a call may take
rest.py               the APIs that have no generated REST client here
google_errors.py      Google's errors as what happened and what to do
permissions.py        which permission each call takes, which roles hold it, and who acts as a service account
patient_reads.py      reads that outlast the network
resource_names.py     resource names and links
refresh.py            the catalog's prices and machine types from Google's APIs
runs/                 runs: started, found, followed, inspected, repeated, compared
schedules/            recurring runs: declared, planned, applied
templates/            workflows uploaded, and found again
cleaning/             what runs left behind, and what of it may go
images/               the one image of the steps, built and named
models/               Vertex AI's Model Registry, brought after ours
preflight/            what would stop a run, found before it costs money"""
