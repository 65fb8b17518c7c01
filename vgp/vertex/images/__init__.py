"""The image of the steps, built by Cloud Build.

image_build.py    `vgp image build`: finds the image in the registry or builds it, and writes its digest
source.py         the files that the image is built from, and their digest
image_contents.py  refuses a run whose code on this machine is not in the image
project_code.py   packs and uploads the project's code for `--code`
cloud_build.py    starts a build once, and follows it to its end with its log"""
