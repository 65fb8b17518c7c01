"""The report: one self-contained HTML file, and a short Markdown summary."""
