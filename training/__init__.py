"""What is trained: tasks, and the image that every step runs in.

Dockerfile    the image
tasks/        one file per task: data, model, loss, predictions
"""
