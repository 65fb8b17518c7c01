"""From raw input to fixed-width Parquet shards with a manifest, and back to rows."""
