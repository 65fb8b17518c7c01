"""What both wings stand on: errors, text, documents, files and stores, Google's clients.

clock.py             the clock that everything waits on; times in RFC 3339
engine_settings.py   what the engines may use, of the variable PREPARE_ENGINES
errors.py            the two expected ways in which a command ends badly
exits.py             how work ends: exit codes, and the error that is the user's to fix
google_api.py        calls of Google's APIs from within a run; secrets
gpu_peaks.py         how fast GPUs can be at most
lock.py              the locked versions of all that an extra needs
memory.py            what this process may use, cgroups counted
retry.py             calls that are repeated, with growing pauses, and polling
whole_files.py       files written whole or not at all; two texts as a unified diff
webhook.py           a JSON body sent to an address of somebody's choice
documents/           JSON, YAML and TOML that keep the place of every value
storage/             files here and objects in Cloud Storage
text/                text for people: tables, figures, near names"""
