"""Use of a trained model: batch prediction, and an HTTP endpoint.

endpoint/     an HTTP server for a model, with the interface of Vertex AI endpoints
prediction/   predictions for new rows"""
