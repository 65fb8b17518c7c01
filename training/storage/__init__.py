"""Files on this machine and objects in Cloud Storage: found, read within limits, and written once."""
