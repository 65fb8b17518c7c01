"""A model behind HTTP, as Vertex AI's endpoints expect a container to be, and the same on a laptop.

python -m vgp.steps serve MODEL

serving_request.py  what is served and where; the body of a request -> rows
model.py     the model that answers, one batch after another; its files, held to their checksums
server.py    the verb; the two routes; the process: loads, listens, drains"""
