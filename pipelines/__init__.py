"""The workflows of this project, one ordinary KFP file each.

batch_prediction.py   resolve -> predict
training.py           resolve -> prepare -> train -> evaluate -> decide -> register; can skip the training
"""
