"""The environment variables by which the desk, a launcher and a step's program agree.

`vgp.protocol.launching` goes into foreign images as text and has the same names written out; a test compares them.
"""

#: Machines of a job and processes of each, as `vgp run` asks for them; Vertex AI's own description of a job's machines.
NODES, NPROC, CLUSTER_SPEC = "TRAINING_NODES", "TRAINING_NPROC", "CLUSTER_SPEC"
#: Machines of the job that hold a TensorFlow model's variables.
PARAMETER_SERVERS = "TRAINING_PARAMETER_SERVERS"
#: What Vertex AI names a custom job by, the same on all its machines and whenever one is started again.
JOB = "CLOUD_ML_JOB_ID"
#: The control folder of a step with a ladder, and this attempt's token; set together, or neither.
CONTROL_FOLDER, ATTEMPT = "TRAINING_CAPACITY", "TRAINING_ATTEMPT"
#: Where checkpoints, pins and the registry of models are, in place of what follows from the run's folder.
CHECKPOINTS, PINS, REGISTRY = "TRAINING_CHECKPOINTS", "TRAINING_PINS", "TRAINING_REGISTRY"
#: The project's image, the image of this step where that is another one, and the commit of the code.
IMAGE, STEP_IMAGE, COMMIT = "TRAINING_IMAGE", "TRAINING_STEP_IMAGE", "TRAINING_COMMIT"
#: Processes on each rung of a ladder, by which a job says before its first step what it cannot continue on.
WORLD_SIZES = "TRAINING_WORLD_SIZES"
#: How often Spot machines are expected to go, by which the interval of checkpoints is chosen.
PREEMPTIONS_PER_HOUR = "TRAINING_PREEMPTIONS_PER_HOUR"
#: Where Vertex AI wants the logs of TensorBoard.
TENSORBOARD = "AIP_TENSORBOARD_LOG_DIR"
