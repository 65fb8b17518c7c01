import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import patch
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from vgp.base.exits import UserError
from vgp.data import bundle
from vgp.decision import reason
from vgp.decision.decide import decide
from vgp.decision.decision import ConstantCheck, RivalCheck
from vgp.decision.report import findings, plots, report
from vgp.decision.report import page as pages
from vgp.decision.report.report import markdown, task_name, title, write
from vgp.evaluation import record
from vgp.evaluation.evaluate import evaluate
from vgp.protocol import manifest as manifests

VOID = {"meta", "br", "link", "img", "hr", "input", "rect", "path", "use"}


@pytest.fixture
def made(tmp_path):
    """Makes a dataset, a model and an evaluation with a decision; returns the report's arguments."""
    import coins

    def make(champion=False, baseline=True, **options):
        data, model, evaluation = (tmp_path / "made" / name for name in ("data", "model", "evaluation"))

        def evaluated():
            coins.trained(model, coins.dataset(data, **options))
            old = str(coins.trained(tmp_path / "old", data, slope=0.1, red=1.5)) if champion else ""
            evaluate(data, model, evaluation, champion=old, baseline=baseline)

        kind = ["evaluated", champion, baseline, options, list(coins.Coins.private)]
        coins.once(kind, tmp_path / "made", evaluated)
        arguments = {"data": data, "model": model, "evaluation": evaluation}
        return {**arguments, "decision": decide(evaluation, nights=4)}

    return make


def page(tmp_path, arguments) -> str:
    write(tmp_path / "report.html", **arguments)
    return (tmp_path / "report.html").read_text()


def words(tmp_path, arguments) -> str:
    """The text of the page; its plots, which are most of the work, are empty."""
    blank = Markup('<svg role="img" aria-label="a plot"></svg>')
    drawn = ("learning_curve", "roc", "precision_recall", "calibration", "slice_plot")
    with patch.object(report, "_draw_plots", lambda *_: {**dict.fromkeys(drawn, blank), "unplotted": 0}):
        return " ".join(Outline(page(tmp_path, arguments)).text.split())


class Outline(HTMLParser):
    """The elements in order, all closed; text outside of styles."""

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, text):
        if "style" not in self.open:
            self.words.append(text)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


VARIANTS = [
    {"plain": True, "splits": ["train", "test"], "baseline": False},
    {"sides": 5},
    {"only": {"2": 1}},
]


@pytest.mark.parametrize("options", VARIANTS, ids=["bare", "five classes", "one class in test"])
def test_every_kind_of_run_gets_a_whole_page_that_loads_nothing(made, tmp_path, options):
    arguments = made(**options)
    html = page(tmp_path, arguments)
    _check_whole(html, arguments)
    if "only" in options:
        assert re.search(r"label [\d.]+ large", Outline(html).text), "its shares have moved"


def _check_whole(html, arguments):
    outline = Outline(html)
    for tag, attributes in outline.elements:
        assert tag not in ("script", "link", "img", "iframe")
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")
    assert not re.search(r"url\((?!#)|@import", html)
    assert "#010a0" not in html and "nan" not in outline.text.lower().split()
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    reason = arguments["decision"].reason.partition(": ")[2]
    assert " ".join(reason[1:].split()) in outline.text


def test_a_page_with_a_champion_is_small_tells_all_and_is_the_same_bytes_in_another_process(made, tmp_path):
    arguments = made(champion=True)
    html = page(tmp_path, arguments)
    _check_whole(html, arguments)
    assert len(html) < 500_000
    plots = re.findall(r"<svg role.*?</svg>", html, flags=re.DOTALL)
    assert len(plots) == 5
    for plot in plots:
        assert len(ElementTree.fromstring(plot).attrib["aria-label"]) > 30
    labelled = [attributes for tag, attributes in Outline(html).elements if tag == "svg"]
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in labelled)
    text = Outline(html).text
    for part in ("Promote", "champion", "baseline", "ROC curve", "Calibration", "Confusion matrix", "Learning curve"):
        assert part in text
    for part in ("AUC by slice", "1,200", "tilt", "learning rate", "coins:Coins", "epochs", "torch"):
        assert part in text
    for part in ("Average precision", "Precision and recall", "operating point", "1,200 validation rows"):
        assert part in text
    for part in ("Feature importance", "tilt", "Example rows", "b, and not expected", "Drift since training"):
        assert part in text
    assert "0 of 3 columns moved; 3 did not" in text
    assert _written_elsewhere(arguments, tmp_path / "elsewhere" / "report.html") == html


def _written_elsewhere(arguments, path) -> str:
    """The page of another process, whose hashes have another seed."""
    paths = [str(arguments[name]) for name in ("data", "model", "evaluation")]
    code = (
        "import sys; from vgp.decision import decision; from vgp.decision.report.report import write\n"
        "data, model, evaluation, path = sys.argv[1:]\n"
        "write(path, data=data, model=model, evaluation=evaluation, decision=decision.load(evaluation))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path.cwd())}
    subprocess.run([sys.executable, "-c", code, *paths, str(path)], check=True, env=environment)
    return path.read_text()


def test_slices_with_long_names_leave_the_plot_its_width_and_the_legend_whole(made):
    """Whatever a slice is called: the legend ends inside the picture, and half of it is axes."""
    found = record.load(made(champion=True)["evaluation"])
    name = "left the helmet at the station by mistake"
    plot = plots.slices(found, [each.model_copy(update={"value": name}) for each in found.slices], set())
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', plot)[1])
    axes, legend = (_across(plot, name) for name in ("patch_2", "legend_1"))
    assert axes[1] - axes[0] > width / 2 and legend[1] < width
    assert name not in plot and "left the helmet at the" in plot


def _across(plot: str, name: str) -> tuple[float, float]:
    """Where the first path of that element begins and ends from left to right."""
    path = plot[plot.index(name) :].partition(' d="')[2].partition('"')[0]
    places = [float(at) for at in re.findall(r"([\d.]+) [\d.]+", path)]
    return min(places), max(places)


def test_a_page_that_says_promote_says_whose_word_it_is_and_where_the_outcome_is(made, tmp_path):
    """It is made before the model is registered, and a hit of the cache shows it on any later night."""
    arguments = made(champion=True)
    word = "The `register` step promotes the model, or keeps it as a candidate"
    assert word in words(tmp_path, arguments)
    kept = {**arguments, "decision": arguments["decision"].model_copy(update={"promote": False})}
    assert word not in words(tmp_path, kept)


def test_the_best_value_of_each_figure_is_bold_whoever_has_it(made, tmp_path):
    measured = record.load(made(champion=True)["evaluation"])
    losses = {model: scores.scores.loss for model, scores in measured.models.items()}
    (row,) = (row for row in pages.figure_rows(measured) if row.figure.field == "loss")
    assert [cell.model for cell in row.cells if cell.best] == [min(losses, key=losses.get)]
    (row,) = (row for row in pages.figure_rows(measured) if row.figure.field == "auc")
    assert [cell.best for cell in row.cells] == [cell.text == max(c.text for c in row.cells) for cell in row.cells]
    alone = measured.model_copy(update={"models": {"challenger": measured.models["challenger"]}})
    assert not any(cell.best for row in pages.figure_rows(alone) for cell in row.cells)


def test_the_page_names_why_a_model_waits(made, tmp_path):
    """Because a simple model or a constant is better, or because a person is asked."""
    arguments = made(champion=True)
    rival = RivalCheck(model="boosting", value=0.1, difference=0.2, lower_bound=0.15, upper_bound=0.25)
    constant = ConstantCheck(
        what="the class frequencies", metric="loss", unit="", challenger=0.6, constant=0.5)  # fmt: skip
    for update, word, check in (
        ({"rivals": (rival,)}, "Gradient boosting (log loss 0.1000) is better than the new model by 0.2000",
         "Gradient boosting: log loss 0.1000; the new model is worse by 0.1500 to 0.2500."),
        ({"constants": (constant,)}, "worse than a constant: log loss 0.6000 against 0.5000 for a prediction of",
         "log loss 0.6000, against 0.5000 of the class frequencies of the train labels."),
    ):  # fmt: skip
        waits = arguments["decision"].model_copy(update={"promote": False, "candidate": True, **update})
        waits = waits.model_copy(update={"reason": reason.explain_comparison(waits)})
        text = words(tmp_path, {**arguments, "decision": waits})
        assert "Candidate" in text and word in text and check in text
        assert "vgp models promote" in text and "The `register` step promotes" not in text
        assert word in markdown(evaluation=arguments["evaluation"], decision=waits)
    asked = arguments["decision"].model_copy(update={"approve": "manual"})
    text = words(tmp_path, {**arguments, "decision": asked})
    assert "waits as a candidate because approve = manual" in text


def test_the_sentence_and_the_page_write_an_interval_that_begins_at_zero_alike(made):
    update = {"difference": 0.0069, "interval": (-0.00001, 0.0139), "lower_bound": -0.00004}
    decision = made(champion=True)["decision"].model_copy(update=update)
    sentence, page = reason.describe_test(decision), pages.checks(decision)[0].text
    assert "(95% interval 0.0000 to 0.0139)" in sentence and "puts the gain above 0.0000" in sentence
    assert "0.0069 better than the champion (95% interval 0.0000 worse to 0.0139 better)" in page
    assert "lower bound is 0.0000 worse;" in page


def test_the_first_sentence_of_the_decision_stands_alone_and_a_doubt_once(made, tmp_path):
    arguments = made()
    doubt = "A column alone nearly predicts the label: fee (AUC 0.99)."
    waits = arguments["decision"].model_copy(
        update={"reason": f"Candidate: the new model is better: log loss 0.5 against 0.6. But it waits. {doubt}"}
    )
    dataset = manifests.load(arguments["data"]).model_copy(update={"notes": (doubt,)})
    with patch.object(report.manifest, "load", lambda _: dataset):
        html = page(tmp_path, {**arguments, "decision": waits})
    assert '<p class="first">The new model is better: log loss 0.5 against 0.6.</p>' in html
    assert html.count("AUC 0.99") == 1 and f"<p>But it waits. {doubt}</p>" in html


def test_without_a_decision_there_is_no_verdict(made, tmp_path):
    assert "romote" not in words(tmp_path, {**made(), "decision": None})


def test_names_from_the_data_are_text_not_markup(made, tmp_path):
    evil = '<script>alert("1")</script> $x_1$ {{ 7 * 7 }}'
    html = page(tmp_path, made(colours=[evil, "red"], baseline=False))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 3  # plot, table, column summary
    assert evil in Outline(html).text


def test_names_in_any_script_are_drawn_without_warnings(made, tmp_path):
    assert "東京" in Outline(page(tmp_path, made(colours=["東京", "القاهرة"], baseline=False))).text


def test_a_folder_that_lacks_something_leaves_no_half_report(made, tmp_path):
    arguments = made()
    for name in ("data", "model", "evaluation"):
        with pytest.raises(UserError, match="it is not a (prepared|finished)"):
            write(tmp_path / "report.html", **{**arguments, name: tmp_path})
        assert not list(tmp_path.glob("report*"))


def test_the_summary_says_the_decision_and_the_figures(made):
    arguments = made(champion=True)
    text = markdown(evaluation=arguments["evaluation"], decision=arguments["decision"])
    assert text.startswith("# Coins\n\nPromote: ")
    assert "| | new model | champion | baseline |" in text
    assert re.search(r"\| AUC, higher is better \| 0\.\d{4} \| 0\.\d{4} \| 0\.\d{4} \|", text)
    assert "Promote" not in markdown(evaluation=arguments["evaluation"])


@pytest.mark.parametrize(
    "task, name",
    [("training.tasks.flights:Flights", "Flights"), ("a.b:LanguageModel", "Language model"), ("a:my_task", "My task")],
)
def test_a_task_is_named_in_words(task, name):
    assert task_name(task) == name


def test_the_task_of_any_table_is_called_by_its_target(made):
    arguments = made()
    measured = record.load(arguments["evaluation"])
    table = measured.model_copy(update={"task": "vgp.data.tasks.table:Table", "target": "Survived"})
    assert measured.target and title(measured) == "Coins" and title(table) == "Survived"


def test_an_option_of_many_lines_is_folded_and_keeps_them(made, tmp_path, monkeypatch):
    arguments = made()
    card = bundle.load_card(arguments["model"])
    declared = card.model_copy(update={"options": {**card.options, "declaration": 'target = "y"\n\n[columns]\n'}})
    monkeypatch.setattr(bundle, "load_card", lambda model: declared)
    html = page(tmp_path, arguments)
    assert (
        '<summary>option declaration, 3 lines</summary><pre class="sample">target = &#34;y&#34;\n\n[columns]</pre>'
        in html
    )


def test_a_row_that_was_expected_is_not_listed_as_one_that_was_not(made):
    lists = record.load(made()["evaluation"]).examples.lists
    said = [row.predicted.partition(",")[0] == row.actual for shown in lists[:2] for row in shown.rows]
    assert said and not all(said)


def test_the_data_summary_counts_what_is_there(made):
    arguments = made(colours=["blue", "blue", "blue", "red"])
    manifest = manifests.load(arguments["data"])
    splits = findings.split_summaries(arguments["data"], manifest)
    assert [(split.name, split.rows) for split in splits] == [(n, 1_200) for n in ("train", "validation", "test")]
    assert all(sum(split.class_shares) == pytest.approx(1) for split in splits)
    colour, tilt, size = findings.column_summaries(arguments["data"], manifest, "test")
    assert colour.text.startswith("2 values: blue 7") and colour.train_bars[0] > 2 * colour.train_bars[1]
    assert (tilt.missing, size.missing) == (20 / 1_200, 0)
    assert max(tilt.train_bars + tilt.test_bars) == 1 and len(tilt.train_bars) == findings.BARS
    assert tilt.train_bars.index(max(tilt.train_bars)) in range(6, 18)  # a bell
    rare = manifest.column("colour").model_copy(update={"counts": (0, 1_000, 1), "values": ("", "blue", "red")})
    [colour] = findings.column_summaries(arguments["data"], manifest.model_copy(update={"columns": (rare,)}), "test")
    assert colour.text == "2 values: blue 100%, red <1%"


def test_what_a_reader_must_know_of_the_data_is_in_the_report(made, tmp_path):
    arguments = made()
    manifest = manifests.load(arguments["data"])
    manifests.save(manifest.model_copy(update={"notes": ("1,315 of 1,316 rows are <alike>.",)}), arguments["data"])
    assert "1,315 of 1,316 rows are <alike>." in words(tmp_path, arguments)


def test_without_validation_rows_the_page_says_why_there_is_no_operating_point(made, tmp_path):
    text = words(tmp_path, made(splits=["train", "test"]))
    assert "No operating point: there were no validation rows to choose it on (the largest F1 score)" in text
    assert "recall 90%" in text


@pytest.mark.parametrize(("average", "corner"), [(0.9, "lower left"), (0.2, "upper right")])
def test_the_names_of_curves_of_precision_stand_where_the_curves_are_not(made, average, corner, monkeypatch):
    measured = record.load(made()["evaluation"])
    challenger = measured.models["challenger"]
    scores = challenger.scores.model_copy(update={"average_precision": average})
    models = {**measured.models, "challenger": challenger.model_copy(update={"scores": scores})}
    corners = []
    monkeypatch.setattr("matplotlib.axes.Axes.legend", lambda axes, loc: corners.append(loc))
    plots.precision_recall(measured.model_copy(update={"models": models}))
    assert corners == [corner]


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"count": 9, "mean": 13.0, "minimum": 13.0, "maximum": 13.0}, "always 13.00"),
        ({"count": 0, "missing": 9}, "no values"),
        ({"count": 2, "mean": 1.0, "std": 0.5, "minimum": 0.5, "maximum": 1.5}, "1.000 ± 0.500, from 0.5000 to 1.500"),
    ],
)
def test_a_column_of_one_value_has_no_spread(facts, text):
    assert findings._describe_column(manifests.Column(name="words", kind="number", type="float", **facts)) == text


def test_values_of_private_columns_are_nowhere_on_the_page(made, tmp_path, monkeypatch):
    import coins

    options = {"colours": ["ultramarine", "vermilion"], "plain": True, "baseline": False}
    assert page(tmp_path, made(**options)).count("ultramarine") > 5
    monkeypatch.setattr(coins.Coins, "private", ("colour",))
    html = page(tmp_path, made(**options))
    assert html.count("ultramarine") == html.count("vermilion") == 1, "as an option of the task, which is not data"
    assert "values withheld" in html and "Withheld columns: colour." in Outline(html).text


def test_a_regression_has_plots_of_its_residuals_and_quantiles(tmp_path):
    import springs

    data, model = springs.evaluated(tmp_path)
    figures = evaluate(data, model, tmp_path / "evaluation").regression.models["challenger"]
    arguments = {"data": data, "model": model, "evaluation": tmp_path / "evaluation"}
    html = page(tmp_path, {**arguments, "decision": decide(tmp_path / "evaluation")})
    text = Outline(html).text
    for part in ("RMSE", "R²", "Residuals", "Calibration of quantiles", "Intervals", "0.1 to 0.9", "gradient boosting"):
        assert part in text or part in html
    assert "nats" not in text and "bits" not in text
    for part in ("Feature importance", "weight_kg", "mean pinball loss", "Highest loss", "in cm"):
        assert part in text
    assert "Confusion" not in text and "Where to draw the line" not in text
    assert len(re.findall(r"<svg role=\"img\" aria-label=\"[^\"]{30,}", html)) >= 4
    shares = ", ".join(f"{point.quantile:g} {point.observed:.3f}" for point in figures.calibration)
    assert f"bias is {figures.scores.bias:.4g};" in html and f"of the new model: {shares}." in html
    assert html.count("middle half") == 2  # in the plot's legend, and in words
    assert "| RMSE, lower is better |" in markdown(evaluation=arguments["evaluation"])


def luminance(colour):
    """Relative luminance: https://www.w3.org/TR/WCAG21/#dfn-relative-luminance"""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def mixed(one, other, share):
    parts = [(int(one[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in parts)


def test_text_has_the_contrast_of_wcag_aa_light_dark_and_on_paper():
    css = (Path(report.__file__).parent / "style.css").read_text()
    themes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{3,6})", block)) for block in re.findall(r":root \{(.*?)\}", css, re.S)
    ]
    assert len(themes) == 3
    for theme in themes:
        theme = {name: c if len(c) == 7 else "#" + "".join(2 * x for x in c[1:]) for name, c in theme.items()}
        for name in ("ink", "muted", "good", "bad", "challenger"):
            for ground in ("page", "surface"):
                assert contrast(theme[name], theme[ground]) >= 4.5, (name, ground)
        for name in ("champion", "baseline", "boosting"):  # lines of plots, and never text alone
            assert contrast(theme[name], theme["surface"]) >= 3, name
        assert contrast(theme["ink"], mixed(theme["challenger"], theme["wash"], 0.45)) >= 4.5, "confusion matrix"
