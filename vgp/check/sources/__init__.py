"""Reads requests from programs and scripts as documents, without running anything.

python_code.py      a Python program: calls, dictionaries, and the limits of kfp's tasks
sdk_calls.py        calls of Google's SDK, pipeline components, Airflow and Ray
constants.py        expressions of Python that are the same in every run
program_names.py    what the names of a Python program stand for
classes.py          attributes of classes, dataclasses and enums; defaults of flags and of the environment
python_commands.py  the gcloud commands that a Python program runs
embedded_commands.py  gcloud commands in CI files, Cloud Build and Makefiles
notebook.py         a notebook: its cells as one program and one script, and where their lines stand
shell_script.py     the jobs and deployments that a shell script asks for
shell_commands.py   where its gcloud commands begin and end
shell_variables.py  the words of a command, as bash splits them, and what variables and arrays hold
command_line.py     the words of a gcloud line, as gcloud reads them, and what became of each
gcloud_line.py      a gcloud line as the body that gcloud sends
terraform.py        the google_vertex_ai_ resources of a Terraform file
hcl.py              the values of the expressions of Terraform's language
hcl_blocks.py       the blocks of Terraform's language, and the files beside a file"""
