"""Starts a user's own command on every machine of a job, as its framework expects, and ends it cleanly.

It travels as one text (vgp/workflow/compiling/script_step.py) to images that hold nothing of ours: standard
library only, Python 3.8, any user. Its modules import names from each other, never each other as a whole.

    python3 -c TEXT --launch KIND --data URI --model URI --checkpoints URI --pins URI --key TEXT
                    [--number NAME=VALUE] [--text NAME=VALUE] -- COMMAND...

KIND        processes            variables, beside those of the folders
torchrun    one per GPU, else 1  what torchrun gives: RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT ...
tensorflow  one per node         TF_CONFIG with chief, worker, ps, as Vertex AI sets it; a single node is a worker
jax         one per node         JAX_COORDINATOR_ADDRESS ..., and what jax.distributed.initialize() finds by itself
plain       one per node         MASTER_ADDR, MASTER_PORT, NODE_RANK, NNODES; DMLC_... (XGBoost), TRAINING_MACHINES

Folders: AIP_MODEL_DIR, AIP_CHECKPOINT_DIR, AIP_TENSORBOARD_LOG_DIR (gs://.../ on Vertex AI, as it sets them; paths
here), TRAINING_DATA (as the file system has it, /gcs/...) and TRAINING_DATA_URI. Every attempt at a request has the
same folder of checkpoints. In COMMAND {data} {model} {checkpoints} {logs} (as the file system has them), {nodes}
{node} {processes} (of one node) {chief} {port}, and the NAMEs of --number and --text, are replaced; other braces stay.

Machines: those of CLUSTER_SPEC. Without it this is one machine; TRAINING_NODES=2 starts the processes of two nodes
here, each with a CLUSTER_SPEC, TRAINING_PARAMETER_SERVERS=1 a parameter server. TRAINING_NPROC: processes of a node.

Output passes as it comes where there is one process; of several, as whole lines, with `[rank 3] ` before those of all
but the first. The first process to fail ends the others and is named; its exit code (128 + n after signal n) is ours.
The first SIGTERM, SIGINT or SIGHUP is passed on, and after 25 s everything is killed; at once if a SIGINT comes later,
while another SIGTERM or SIGHUP changes nothing. The exit code is then 128 + n, also if the command ended with 0: what
was stopped is not done. A job ends with its chief, as on Vertex AI: what goes on 10 s later is ended. 2: the request is
wrong. Node 0 leaves script.json in the folder of --checkpoints. Of a job that ended well, a warning tells if its
processes never connected to each other.

Where TRAINING_CAPACITY and TRAINING_ATTEMPT are set, somebody follows this job, and starts it again elsewhere: 75 then
says that another job does the work, and nothing was started; one that nobody follows any more stops as by a SIGTERM.

From the bottom up, each module imports those above it alone:

request.py    the options, the command, and how a mistake in them is said
machines.py   the nodes of the job, as a CLUSTER_SPEC tells of them
folders.py    data, model, checkpoints and logs, as URIs and as paths
project_code.py  the code that came with the run, on top of the image's
following.py  who follows this job: whether it may begin, and go on
rank.py       one process: what it writes, how it starts and ends
ranks.py      the processes of a node: its share of the GPUs, what each framework expects in the environment
output.py     the output of all, passed on
meeting.py    whether the processes ever connected to each other
job.py        all processes, until nothing of them is left; their guard; the exit code"""
