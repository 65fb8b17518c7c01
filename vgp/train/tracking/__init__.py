"""An MLflow server that is told of a training, where the environment names one (docs/observing.md).

server.py    its REST API
live.py      a run that is told while it trains, in a thread of its own
judged.py    what the evaluation and the decision add

Not MLflow's own client: for six requests of a documented API it brings FastAPI, Uvicorn, GitPython, Databricks' SDK."""
