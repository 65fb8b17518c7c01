"""An HTTP server for a model, with the container interface of Vertex AI endpoints; also runs on a laptop.

python -m vgp.steps serve MODEL

serving_request.py  the configuration of the server; parses the body of a request
served_model.py  loads the model, checks the checksums of its files, answers requests
server.py    the command; the two routes; the process: loads, listens, drains"""
