"""The environment variables that commands, launchers and steps exchange.

`vgp.protocol.launching` runs in other images without this module and repeats the names; a test compares them.
"""

#: Machines of a job and processes of each, from the options of `vgp run`; Vertex AI's description of a job's machines.
NODES, NPROC, CLUSTER_SPEC = "TRAINING_NODES", "TRAINING_NPROC", "CLUSTER_SPEC"
#: Machines of the job that hold a TensorFlow model's variables.
PARAMETER_SERVERS = "TRAINING_PARAMETER_SERVERS"
#: Id of the custom job, the same on all its machines and after restarts.
JOB = "CLOUD_ML_JOB_ID"
#: The control folder of a step with a ladder, and this attempt's token; set together, or neither.
CONTROL_FOLDER, ATTEMPT = "TRAINING_CAPACITY", "TRAINING_ATTEMPT"
#: Folders of checkpoints, pins and the model registry, instead of the defaults in the run's folder.
CHECKPOINTS, PINS, REGISTRY = "TRAINING_CHECKPOINTS", "TRAINING_PINS", "TRAINING_REGISTRY"
#: The container's image; the image that stands for the step's code, if another: of a rung's own image and of the light
#: image; and the commit of the code.
IMAGE, STEP_IMAGE, COMMIT = "TRAINING_IMAGE", "TRAINING_STEP_IMAGE", "TRAINING_COMMIT"
#: URI of the archive with the project's code, which replaces the code in the image.
CODE = "TRAINING_CODE"
#: The archive that this process or its parent has unpacked.
CODE_UNPACKED = "TRAINING_CODE_UNPACKED"
#: Processes on each rung of a ladder, so that a job can report before its first step where it cannot continue.
WORLD_SIZES = "TRAINING_WORLD_SIZES"
#: Expected preemptions per hour, which determine the checkpoint interval.
PREEMPTIONS_PER_HOUR = "TRAINING_PREEMPTIONS_PER_HOUR"
#: Folder for TensorBoard logs, set by Vertex AI.
TENSORBOARD = "AIP_TENSORBOARD_LOG_DIR"
