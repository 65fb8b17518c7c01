"""Text for people: made safe to print, and written to a terminal that may be none."""
