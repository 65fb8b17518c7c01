"""The error of a wrong task.toml names the line, the value and the choices, before any data is read."""

import pytest

from tests.helpers.declared import TOML
from vgp.base.exits import UserError
from vgp.data.tasks.table.parsing import MOST_BYTES, parse


def test_a_declaration_names_the_type_of_every_column():
    declared = parse(TOML)
    assert declared.kinds["born"].form == "%d.%m.%Y" and declared.kinds["age"].word == "float"
    assert list(declared.features) == ["age", "sex", "fare", "born", "name"]
    two = parse(TOML.replace('missing = ["?"]', 'group = ["sex", "name"]').replace('slices = ["sex"]', ""))
    assert two.groups == ("sex", "name") and list(two.features) == ["age", "fare", "born"]
    alone = parse(TOML.replace('missing = ["?"]', 'group = "row"'))
    assert alone.groups == ("row",) and alone.features == declared.features


def test_the_day_of_a_time_is_no_column_so_that_one_of_its_name_is_learned_from():
    table = 'target = "y"\nkind = "regression"\ntime = "at"\ngroup = "day"\n[columns]\n'
    table += 'y = "float"\nat = "date"\nday = "int"\n'
    assert list(parse(table).features) == ["day"]
    assert list(parse(table.replace('time = "at"\n', "")).features) == ["at"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"float"', '"flaot"', "line 11: the column 'age': 'flaot' is not a type.*float"),
        ('"float"', "3", r"line 11: columns.age = 3: it should be a valid string"),
        ('target = "survived"', 'targt = "survived"', r"line 1: target is missing: write target = \"COLUMN\""),
        ('kind = "classes"', 'kind = "clases"', "line 2: kind = 'clases': it should be 'classes' or 'regression'"),
        ('["sex"]', '["sexx"]', r"line 5: slices: \[columns\] has no 'sexx'.*sex"),
        ('["id"]', '["alive"]', r"line 4: key: \[columns\] has no 'alive'. It is in \[ignored\]"),
        ('missing = ["?"]', 'group = ["sex", "sex"]', r"group = \['sex', 'sex'\]: name one column, or two"),
        ('missing = ["?"]', 'group = ["sex", "row"]', '"row" makes each row independent'),
        ('missing = ["?"]', 'group = ["sex", "house"]', r"group: \[columns\] has no 'house'"),
        ('["sex"]', '["age"]', "line 5: slices: 'age' is not a category"),
        ('"classes"', '"regression"', r"line 2: the target 'survived' is 'category', and a regression learns a number"),
        ('["no", "yes"]', '["no"]', r"line 3: classes = \['no'\]: name two or more"),
        ("alive ", "age ", "is in both \\[columns\\] and \\[ignored\\]"),
        ("name  ", "Age  ", "line 15: 'Age' and 'age' differ only in case"),
        ("name  ", '""    ', "line 15: a column without a name"),
        ('missing = ["?"]', 'time = "age"', "line 11: the time 'age' is 'float'; it must be a date or a timestamp"),
        ('missing = ["?"]', "[network]\nhiden = [8]\n[split]", "line 7: unknown key 'network.hiden'.*hidden"),
        ('missing = ["?"]', "missing = [", "is not valid TOML"),
        ("# years", "x" * 10, "is not valid TOML"),
        ("# years", "#" * MOST_BYTES, "bytes as JSON, and at most 98,304"),
        ('id       = "int"', 'id = "int missing -1"', "line 9: 'id' is 'int missing -1', and a key may not be missing"),
        (
            '"float"',
            '"float missing \'a"',
            "No closing quotation",
        ),
        ('"float"', '"bool missing a"', '"missing" needs texts'),
        ('["id"]', '["survived"]', "line 4: key names the target"),
    ],
)
def test_a_mistake_is_reported_with_its_line(old, new, message):
    assert old in TOML
    with pytest.raises(UserError, match=message):
        parse(TOML.replace(old, new, 1))


@pytest.mark.parametrize(
    ("quantiles", "message"),
    [("[]", "give numbers between 0 and 1"), ("[0.5, 0.1]", "rising order"), ("[1.5]", "between 0")],
)
def test_the_quantiles_of_a_regression_rise_between_0_and_1(quantiles, message):
    with pytest.raises(UserError, match=f"line 3: quantiles = .*{message}"):
        parse(f'target = "y"\nkind = "regression"\nquantiles = {quantiles}\n[columns]\ny = "float"\nx = "int"\n')


def test_a_table_with_nothing_but_its_target_is_refused():
    with pytest.raises(UserError, match=r"line 4: \[columns\] has nothing to learn from"):
        parse('target = "y"\nkind = "regression"\n\n[columns]\ny = "float"\n')


def test_more_columns_than_are_taken_are_refused_with_the_reason():
    columns = "".join(f'c{i} = "int"\n' for i in range(2_001))
    with pytest.raises(UserError, match="2,001 columns are too many: .* at most 2,000"):
        parse(f'target = "c0"\n[columns]\n{columns}')
