"""A model in use: predictions of many rows, and an endpoint that answers requests.

endpoint/     a model behind HTTP, as Vertex AI's endpoints call it
prediction/   new rows -> what a model says of them"""
