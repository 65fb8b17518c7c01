"""A model behind HTTP, as Vertex AI's endpoints expect a container to be, and the same on a laptop.

python -m vgp.steps serve MODEL

command.py   the verb
serving_request.py  what is served, and where: arguments, and the variables that Vertex AI sets
model.py     the model that answers, one batch after another; its files, held to their checksums
parsing.py   the body of a request -> rows, or what is wrong about it
app.py       the two routes
server.py    the process: loads, listens, drains"""
