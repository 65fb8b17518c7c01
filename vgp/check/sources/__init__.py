"""Files in which people write requests -> documents of them, without running anything.

sdk_calls.py     calls of Google's SDK, pipeline components and Airflow
classes.py       attributes of classes, dataclasses and enums; defaults of flags and of the environment
command_line.py  the words of a gcloud line, as gcloud reads them, and what became of each
constants.py     expressions of Python that are the same in every run
gcloud_line.py   a gcloud line as the data of a file
hcl.py           the values of the expressions of Terraform's language
hcl_blocks.py    the blocks of Terraform's language
gcloud_flags.py  the flags of gcloud's commands as the bodies that they send
kfp_limits.py    set_accelerator_type and what goes with it; calls that make persistent resources
program_names.py  what the names of a Python program stand for
notebook.py      a notebook: its cells as one program and one script, and where their lines stand
python_code.py   a Python program
source_files.py  a file by its name: specs, programs, scripts, notebooks, Terraform
shell_script.py  the gcloud commands of a shell script
shell_variables.py  what its variables and arrays hold
shell_words.py   the words of a command, as bash splits them
terraform.py     the google_vertex_ai_ resources of a Terraform file"""
