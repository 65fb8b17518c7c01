"""Tools for the pages below docs/.

python -m tools.docs [--write] [--fast] [PAGE...]    runs the console blocks of the pages and compares what they print
python -m tools.docs.reference [--write]             generates docs/reference/ from the code
python -m tools.docs.site                            builds the site with llms.txt and each page as Markdown
"""
