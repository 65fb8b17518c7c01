"""Starts a user's own command on every machine of a job, as its framework expects, and stops it cleanly.

The package is joined into one text (vgp/workflow/compiling/script_step.py) that runs in images without this library:
standard library only, Python 3.8, any user. Its modules share one namespace, so they import names from each other,
never a whole module.

    python3 -c TEXT --launch KIND --data URI --model URI --checkpoints URI --pins URI --key TEXT
                    [--number NAME=VALUE] [--text NAME=VALUE] -- COMMAND...

KIND        processes            variables, besides those of the folders
torchrun    one per GPU, else 1  torchrun's RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT ...
tensorflow  one per node         TF_CONFIG with chief, worker, ps, as on Vertex AI; a single node is a worker
jax         one per node         JAX_COORDINATOR_ADDRESS ..., and the variables that jax.distributed.initialize() reads
plain       one per node         MASTER_ADDR, MASTER_PORT, NODE_RANK, NNODES; DMLC_... (XGBoost), TRAINING_MACHINES

Folders: AIP_MODEL_DIR, AIP_CHECKPOINT_DIR, AIP_TENSORBOARD_LOG_DIR (gs://.../ on Vertex AI, local paths elsewhere),
TRAINING_DATA (a path, /gcs/... on Vertex AI) and TRAINING_DATA_URI. All attempts at a request share one folder of
checkpoints. In COMMAND these placeholders are replaced: {data} {model} {checkpoints} {logs} (paths), {nodes} {node}
{processes} (of one node) {chief} {port}, and the NAMEs of --number and --text. Other braces stay.

Machines: those of CLUSTER_SPEC, or this machine without it. Locally, TRAINING_NODES=2 starts the processes of two
nodes, each with a CLUSTER_SPEC, and TRAINING_PARAMETER_SERVERS=1 a parameter server. TRAINING_NPROC sets the processes
of a node.

Output: bytes are forwarded unchanged from a single process; from several processes, as whole lines, prefixed with
`[rank 3] ` for all processes but the first.

End: the first process to fail stops the others; its name is printed and its exit code returned (128 + n after signal
n). The first SIGTERM, SIGINT or SIGHUP is forwarded, and after 25 s all processes are killed. A later SIGINT kills them
at once; a later SIGTERM or SIGHUP is ignored. A stopped job returns 128 + n even if the command returned 0, because its
work is not complete. As on Vertex AI, a job ends with its chief: processes that still run 10 s later are stopped. An
invalid request returns 2. Node 0 writes script.json to the folder of --checkpoints. A warning is printed after a
successful job whose processes never connected to each other.

A capacity launcher sets TRAINING_CAPACITY and TRAINING_ATTEMPT, writes a heartbeat, and may restart the job on other
machines. The launching program returns 75, without starting the command, if another job does the work, and stops the
job as a SIGTERM would if the heartbeat ends.

Modules, each of which imports only modules above it:

request.py    the options, the command, and the errors in them
machines.py   the nodes of the job, from CLUSTER_SPEC
folders.py    data, model, checkpoints and logs, as URIs and as paths
project_code.py  the code that came with the run, on top of the files of the image
following.py  the watch on the launcher's heartbeat: whether the job may begin and continue
rank.py       one process: its output, its start and its end
ranks.py      the processes of a node: their GPUs and the environment variables of each framework
output.py     the forwarded output of all processes
meeting.py    the check that processes connect to each other
job.py        all processes until they have ended; their guard; the exit code"""
