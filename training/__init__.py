"""The tasks of this project, and the image of all steps.

Dockerfile    the image
tasks/        one file per task: data, model, loss, predictions
"""
