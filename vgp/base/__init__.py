"""The foundation of the library: errors, text, documents, files, stores and Google's clients.

clock.py             the clock that all waiting uses; times in RFC 3339
engine_settings.py   resources of the data engines, from the variable PREPARE_ENGINES
errors.py            the two expected failures of a command
exits.py             exit codes of steps, and the errors behind them
google_api.py        calls of Google's APIs from a step; secrets
gpu_peaks.py         peak FLOP/s of GPUs
lock.py              the locked dependencies of an extra
memory.py            memory available to this process, within its cgroup
retry.py             retries with growing pauses, and polling
whole_files.py       files written atomically; unified diffs
webhook.py           a JSON body sent to a configured URL
documents/           JSON, YAML and TOML with the line of every value
storage/             local files and objects in Cloud Storage
text/                text for people: tables, figures, similar names"""
