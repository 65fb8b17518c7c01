"""Dataset, model, evaluation and decision as one page.

report.py       the page and the summary
page.py         the templates; key figures and checks, in words
findings.py     thresholds, columns, single rows and drift; the content of the prepared data
making.py       how a model was made, in words; the champion's report, and the versions before
ladder.py       the rungs of a ladder on which the model was trained
card.py         the card of a version, for the registry: what it is for, and what it must not be used for
plots.py        the plots, also those of a regression
svg.py          matplotlib figures as inline SVG
template.html   the page of the report; card.html that of the card"""
