"""The verbs, one file per group: parse, one call, print."""
