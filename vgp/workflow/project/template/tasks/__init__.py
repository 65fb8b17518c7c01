"""What is learned from what: one class per file, named to a run as tasks.FILE:CLASS."""
