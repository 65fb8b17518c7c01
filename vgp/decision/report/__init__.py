"""Dataset, model, evaluation and decision as one page.

report.py       the page and the summary
findings.py     thresholds, columns, single rows and drift; what the prepared data holds
card.py         the card of a version, for the registry: what it is for, and what it must not be used for
cards.py        key figures and checks, in words
plots.py        the plots
residuals.py    the plots of a regression
ladder.py       the rungs of a ladder on which the model was trained
making.py       how a model was made, in words; the champion's report, and the versions before
page.py         the templates
svg.py          matplotlib figures as inline SVG
template.html   the page of the report; card.html that of the card"""
