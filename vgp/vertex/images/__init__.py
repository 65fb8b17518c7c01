"""The image of the steps, built by Cloud Build.

image.py          the image of the settings: built unless it is there, its digest written; or the gcloud command
source.py         the files that it is made of, named by their content
held.py           what a run names of this machine's code, and the image does not hold
dockerfile.py     what a Dockerfile copies
dockerignore.py   patterns of Docker, and what a .dockerignore leaves out
upload.py         the source, put where Cloud Build takes it from
cloud_build.py    builds: asked for once, followed to the end
build_log.py      the log of a build, as it grows
registry.py       what a tag stands for in Artifact Registry"""
