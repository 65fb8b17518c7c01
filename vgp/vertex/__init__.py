"""How it gets to Vertex AI: templates, runs, schedules, preflight. The only user of Google's clients in `pipelines`."""
