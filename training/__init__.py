"""The tasks of this project, and the image of all steps.

Dockerfile    builds the image
tasks/        one file per task: data, model, loss, predictions
"""
