"""The image of the steps, built by Cloud Build.

image_build.py    the image of the settings: found in the registry, or built; its digest written; or the gcloud command
source.py         the files that it is made of, named by their content
image_contents.py  what a run names of this machine's code, and the image does not hold
cloud_build.py    builds: asked for once, followed to the end with their log"""
