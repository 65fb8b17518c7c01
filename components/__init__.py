"""The steps: typed signatures over `training`, one per file, no logic."""
