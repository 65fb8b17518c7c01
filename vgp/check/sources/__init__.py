"""Files in which people write requests -> documents of them, without running anything.

account.py       what became of each part of a request that was read
calls.py         calls of Google's SDK, pipeline components and Airflow
cells.py         the code cells of a notebook, and where their lines stand in its file
classes.py       attributes of classes, dataclasses and enums
clusters.py      calls that make machines which stay: Ray clusters, persistent resources
command_line.py  the words of a gcloud line, as gcloud reads them
constants.py     expressions of Python that are the same in every run
defaults.py      defaults of flags and of the environment
deploy_flags.py  the flags of `gcloud ai endpoints deploy-model`
gcloud_line.py   a gcloud line as the data of a file
hcl.py           the blocks of Terraform's language, and the values of its expressions
job_flags.py     the flags of `gcloud ai custom-jobs create` and `hp-tuning-jobs create`
kfp_limits.py    set_accelerator_type and what goes with it
legacy_flags.py  the flags of `gcloud ai-platform jobs submit training`
names.py         what the names of a Python program stand for
notebook.py      a notebook: its cells as one program and one script
python_code.py   a Python program
reading.py       a file by its name: specs, programs, scripts, notebooks, Terraform
shell.py         the gcloud commands of a shell script
shell_words.py   the words of a command, as bash splits them
terraform.py     the google_vertex_ai_ resources of a Terraform file"""
