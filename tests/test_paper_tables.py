"""The paper's tables as data: every file reads, every run can be asked for, and the figures are the published ones."""

import math
from collections.abc import Iterator

import pytest

from antidote_learn.bench.layout import Cell
from antidote_learn.bench.reproduction import choice_cells
from antidote_learn.presets import paper_tables, preset
from antidote_learn.presets.aliases import expand_name
from antidote_learn.presets.paper_tables import (
    SCALES,
    Column,
    PaperRow,
    Published,
    TablePart,
    parse_paper_table,
    read_paper_table,
    table_names,
)
from antidote_learn.training.resolve import resolve_request

NAMES = (
    "table1", "table2", "table3", "table4", "table5", "penalised", "transition", "kappa", "delta", "ablation",
    "penalty", "poisoning", "base-losses", "figure1", "figure2",
)  # fmt: skip
TESTS = ("", "imagenet-val")  # the test sets that a column may name
PLANS = [
    pytest.param(name, part, scale, id=f"{name}-{part.name}-{scale}")
    for name in NAMES
    for part in read_paper_table(name).parts
    for scale in SCALES
]


def part_of(name: str, part: str = "CIFAR-10") -> TablePart:
    return next(found for found in read_paper_table(name).parts if found.name == part)


def row_of(name: str, row: str, part: str = "CIFAR-10") -> PaperRow:
    return next(found for found in part_of(name, part).rows if found.name == row)


def cells_of(part: TablePart, scale: str) -> Iterator[Cell]:
    """One cell for each row and column, with a protocol for each that may be chosen; then the cells that choose."""
    plan = part.scales[scale]
    names = [None] if plan.choice is None else plan.choice.protocols
    for row in (row for row in plan.rows if row.method):
        for protocol in names:
            options = {
                **plan.options,
                **({} if protocol is None else {"protocol": protocol}),
                **row.options.get(scale, {}),
            }
            for column in plan.columns:
                yield Cell(plan.data, row.method_at(column), column.noise, 0, options)
    yield from choice_cells(plan).values()


def test_every_table_is_there_in_the_papers_order():
    assert table_names() == NAMES


@pytest.mark.parametrize(("name", "part", "scale"), PLANS)
def test_every_run_can_be_asked_for(name, part, scale):
    asked = {(cell.data, cell.concrete_method, cell.noise, str(cell.options)): cell for cell in cells_of(part, scale)}
    for cell in asked.values():
        resolve_request(cell.request)
    assert {column.test for column in part.scales[scale].columns} <= set(TESTS)
    assert bool(asked) == (name != "table4")  # its methods are not built yet


@pytest.mark.parametrize("name", NAMES)
def test_smoke_needs_no_files_and_is_short(name):
    for part in read_paper_table(name).parts:
        plan = part.scales["smoke"]
        snapshots = {"snapshots": [1, 2]} if name.startswith("figure") else {}
        assert (plan.data, plan.seeds, len(plan.columns), plan.options) == ("digits", 1, 1, {"epochs": 2, **snapshots})
        assert not any("smoke" in row.options for row in plan.rows)
        assert plan.choice is None


@pytest.mark.parametrize(("name", "part", "scale"), PLANS)
def test_a_protocol_is_stated_or_chosen_fairly(name, part, scale):
    plan = part.scales[scale]
    if plan.choice is None:
        assert scale == "smoke" or "protocol" in plan.options
        return
    assert (plan.choice.seed, plan.choice.holdout, len(plan.choice.protocols)) == (1000, 0.1, 2)
    assert "protocol" not in plan.options
    assert not any("protocol" in row.options.get(scale, {}) for row in plan.rows)
    of_columns = plan.choice.noise in [column.noise for column in plan.columns]
    assert of_columns or not any("{" in row.method for row in plan.rows)  # fields have the values of that column


@pytest.mark.parametrize("name", ["table1", "table2", "penalised", "poisoning", "base-losses"])
def test_at_scale_paper_a_row_has_the_protocol_of_its_source(name):
    for part in read_paper_table(name).parts:
        for row in part.scales["paper"].rows:
            protocol = {**part.scales["paper"].options, **row.options.get("paper", {})}["protocol"]
            assert protocol.endswith("-antidote" if row.name.startswith("ANTIDOTE") else "-eps")


@pytest.mark.parametrize("name", NAMES)
def test_notes_can_be_joined_to_a_text(name):
    table = read_paper_table(name)
    rows = [row for part in table.parts for row in part.rows]
    assert not any(row.note.endswith(".") for row in rows)  # they stand before a full stop
    sentences = [table.note, *(part.scales[scale].note for part in table.parts for scale in SCALES)]
    assert all(text.endswith(".") and "\n" not in text for text in sentences if text)
    assert table.note
    assert not table.source.endswith(".")


PUBLISHED = [  # typed from the paper's tables
    ("table1", "CIFAR-10", "CE", "clean", 90.50, 0.35),
    ("table1", "CIFAR-10", "NLNL", "asym. 0.1", 88.5, 0.25),
    ("table1", "CIFAR-10", "NCE+AGCE", "sym. 0.8", 49.98, 4.81),
    ("table1", "CIFAR-10", "ANTIDOTE", "asym. 0.4", 84.60, 0.50),
    ("table1", "CIFAR-10", "ANTIDOTE", "asym. 0.4 (code)", 84.60, 0.50),
    ("table1", "CIFAR-10", "ANTIDOTE, cosine schedule", "sym. 0.4", 86.61, 0.28),
    ("table1", "CIFAR-10", "ANTIDOTE, without bisection", "sym. 0.8", 60.37, 0.82),
    ("table1", "CIFAR-100", "GCE", "sym. 0.4", 56.60, 1.61),
    ("table1", "CIFAR-100", "FL_eps+MAE", "asym. 0.3", 58.88, 0.30),
    ("table1", "CIFAR-100", "ANTIDOTE", "clean", 71.17, 1.19),
    ("table2", "mini-WebVision", "AGCE", "WebVision top-1", 69.48, None),
    ("table2", "mini-WebVision", "ANTIDOTE", "ImageNet top-5", 89.16, 0.58),
    ("table3", "CIFAR-100N", "VolMinNet", "best epoch", 57.80, 0.31),
    ("table3", "CIFAR-100N", "ANTIDOTE", "best epoch", 62.17, 0.23),
    ("table4", "CIFAR-100N", "Proto-semi", "best epoch", 67.73, 0.67),
    ("table5", "CIFAR-10", "eps-softmax", "seconds", 4 * 60 + 12, None),
    ("table5", "CIFAR-100", "CE", "seconds", 33 * 60 + 28, None),
    ("table5", "CIFAR-100", "ANTIDOTE", "seconds", 33 * 60 + 52, None),
    ("penalised", "CIFAR-10", "ANTIDOTE, r_max learned", "sym. 0.6", 82.29, 0.29),
    ("penalised", "CIFAR-10", "ANTIDOTE, r_max by batch", "clean", 92.13, 0.01),
    ("transition", "CIFAR-10", "RENT", "asym. 0.4", 80.0, 0.9),
    ("transition", "CIFAR-100", "RW", "asym. 0.4 (RENT)", 23.0, 11.6),
    ("kappa", "CIFAR-10", "ANTIDOTE", "0.08", 88.80, None),
    ("delta", "CIFAR-10", "ANTIDOTE", "0.45", 87.70, None),
    ("ablation", "CIFAR-10", "ANTIDOTE and CE", "0.9", 81.95, None),
    ("penalty", "CIFAR-10, budget delta", "ANTIDOTE", "sym. 0.2, delta 0.5", 85.08, None),
    ("base-losses", "CIFAR-10", "NCE+RCE", "sym. 0.4", 85.13, 0.56),
]


@pytest.mark.parametrize(("name", "part", "row", "column", "mean", "std"), PUBLISHED)
def test_figures_are_the_published_ones(name, part, row, column, mean, std):
    assert row_of(name, row, part).published[column] == Published(mean, std)


def test_rows_in_comments_of_the_source_have_the_figures_that_stand_there():
    assert len(row_of("table1", "ANTIDOTE, cosine schedule").published) == 1
    assert len(row_of("table1", "ANTIDOTE, without bisection").published) == 1
    assert not row_of("table1", "ANTIDOTE(alpha)").published
    assert not row_of("table1", "ANTIDOTE(alpha)", "CIFAR-100").published


def test_one_published_row_has_the_same_figures_wherever_it_stands():
    table = {(part.name, row.name): row.published for part in read_paper_table("table1").parts for row in part.rows}
    for part in ("CIFAR-10", "CIFAR-100"):
        assert table[part, "ANTIDOTE, log floor"] == table[part, "ANTIDOTE"] == table[part, "ANTIDOTE (released code)"]
    for row in ("GCE", "CE_eps+MAE", "FL_eps+MAE"):
        assert table["CIFAR-100", f"{row} (released code)"] == table["CIFAR-100", row]
    shared = {"ANTIDOTE, r_max learned": "ANTIDOTE, penalised", "ANTIDOTE, r_max by batch": "ANTIDOTE, penalised"}
    for row in part_of("penalised").rows:
        assert row.published.items() <= table["CIFAR-10", shared.get(row.name, row.name)].items()
    for part in read_paper_table("transition").parts:
        own = row_of("transition", "ANTIDOTE", part.name).published
        assert all(own[name] == table[part.name, "ANTIDOTE"][name] for name in ("sym. 0.2", "asym. 0.2", "asym. 0.4"))


@pytest.mark.parametrize(("part", "data"), [("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100")])
def test_values_of_columns_are_those_of_the_presets(part, data):
    for column in part_of("table1", part).columns:
        values = {"kappa": 0, **column.values}
        text = "antidote:delta={delta}:kappa={kappa}".format(**values)
        assert expand_name("preset:ANTIDOTE", data=data, noise=column.noise) == text
        assert values["r"] == pytest.approx(1 - math.exp(-values["delta"]), abs=1e-4)


@pytest.mark.parametrize("row", ["GCE", "CE_eps+MAE", "FL_eps+MAE"])
def test_rows_of_the_released_code_are_its_values_in_the_presets(row):
    for column in part_of("table1", "CIFAR-100").columns:
        case = preset(row, data="cifar100", noise=column.noise)
        assert row_of("table1", f"{row} (released code)", "CIFAR-100").method_at(column) == (case.code or case.loss)


def test_prices_of_the_penalised_variant_are_those_of_the_appendix():
    stated = {"sym. 0.2": 1, "sym. 0.6": 0.05, "sym. 0.8": 0.05, "asym. 0.1": 5, "asym. 0.2": 1, "asym. 0.3": 1,
              "asym. 0.4": 1}  # fmt: skip
    for name in ("table1", "penalised"):
        found = {column.name: column.values["C"] for column in part_of(name).columns}
        assert found.items() >= stated.items()


def test_a_table_that_the_paper_does_not_have_needs_no_code(monkeypatch):
    texts = {"another": TEXT, **paper_tables._table_files()}
    monkeypatch.setattr(paper_tables, "_table_files", lambda: texts)
    assert table_names() == (*NAMES, "another")
    assert read_paper_table("another").title == "A table"


def test_an_unknown_table_is_refused():
    with pytest.raises(ValueError, match=r"^unknown table or figure 'table9'; accepted: table1, .*, figure2, all$"):
        read_paper_table("table9")


TEXT = """\
title = "A table"
source = "nowhere"

[[parts]]
name = "Digits"
data = "digits"
columns = [
    { name = "one", noise = "symmetric:0.2", figure = "best", values = { kappa = 0.1 } },
    { name = "two", noise = "symmetric:0.4", values = { kappa = 0 } },
    { name = "one again", noise = "pair:0.2", like = "one" },
]

[[parts.rows]]
name = "ANTIDOTE"
method = "antidote:kappa={kappa}"
published = ["1.5 ± 0.5", ""]
options = { cpu = { epochs = 3 } }

[[parts.rows]]
name = "CAL"
method = ""
note = "not built yet"

[parts.scales.smoke]
seeds = 1
columns = ["one"]
[parts.scales.cpu]
seeds = 2
choice = { protocols = ["features", "images"], noise = "pair:0.4", seed = 9, holdout = 0.1, options = { subset = 9 } }
[parts.scales.paper]
seeds = 3
columns = ["two", { name = "own", noise = "none", values = { kappa = 2 } }]
rows = ["ANTIDOTE"]
"""


def test_a_file_is_read_as_it_stands():
    table = parse_paper_table("mine", TEXT)
    assert (table.name, table.kind, table.note) == ("mine", "table", "")
    (part,) = table.parts
    assert part.columns[2] == Column("one again", "pair:0.2", "best", "", {"kappa": 0.1}, "one")
    row, missing = part.rows
    assert row.published == {"one": Published(1.5, 0.5), "one again": Published(1.5, 0.5)}
    assert [row.method_at(column) for column in part.columns] == [
        "antidote:kappa=0.1", "antidote:kappa=0", "antidote:kappa=0.1",
    ]  # fmt: skip
    assert (row.options, missing.method) == ({"cpu": {"epochs": 3}}, "")
    scales = part.scales
    assert [column.name for column in scales["smoke"].columns] == ["one"]
    assert (scales["cpu"].columns, scales["cpu"].rows) == (part.columns, part.rows)
    assert scales["cpu"].choice == paper_tables.Choice(("features", "images"), "pair:0.4", 9, 0.1, {"subset": 9})
    assert [column.name for column in scales["paper"].columns] == ["two", "own"]
    assert scales["paper"].rows == (row,)
    assert [scales[scale].seeds for scale in SCALES] == [1, 2, 3]


PART = "table 'mine', part 'Digits'"
WRONG = [
    ('title = "A table"', "title = A", "table 'mine' is no TOML: Invalid value (at line 1, column 9)"),
    ('title = "A table"\n', "", "table 'mine' lacks 'title'; accepted: title, source, parts, kind, note"),
    ('title = "A table"', 'name = "A"\ntitle = "A"', "table 'mine' has an unknown key 'name'; accepted: title, source, "
     "parts, kind, note"),
    ('title = "A table"', 'kind = "bars"\ntitle = "A"', "table 'mine': kind must be one of table, histograms; received "
     "'bars'"),
    ("[parts.scales.cpu]", "[parts.scales.gpu]", f"{PART}: scales must be smoke, cpu, paper; received smoke, gpu, "
     "paper"),
    ('"best"', '"worst"', f"{PART}: figure must be one of last, best, last_top5, seconds; received 'worst'"),
    ('"1.5 ± 0.5", ""', '"1.5 ± 0.5"', f"{PART}, row 'ANTIDOTE': 1 published figures for 2 columns"),
    ('"1.5 ± 0.5"', '"1.5 +- 0.5"', f"{PART}, row 'ANTIDOTE': '1.5 +- 0.5' is no figure as in '90.50 ± 0.35'"),
    ('like = "one"', 'like = "three"', f"{PART}: there is no 'three'; there are one, two"),
    ('"two", noise', '"one", noise', f"{PART} has the column 'one' twice: give each a name of its own"),
    ('"CAL"', '"ANTIDOTE"', f"{PART} has the row 'ANTIDOTE' twice: give each a name of its own"),
    ("cpu = { epochs", "gpu = { epochs", f"{PART}, row 'ANTIDOTE', options has an unknown key 'gpu'; accepted: smoke, "
     "cpu, paper"),
    ('note = "not built yet"', "", f"{PART}, row 'CAL' has no method: add a note that says why"),
    ("{kappa}", "{delta}", f"{PART}, scale 'smoke', row 'ANTIDOTE': the column 'one' has no value for a field of "
     "'antidote:kappa={delta}'; its values: kappa"),
    ('columns = ["one"]', 'columns = ["three"]', f"{PART}, scale 'smoke': there is no 'three'; there are one, two, "
     "one again"),
    ('rows = ["ANTIDOTE"]', 'rows = ["CE"]', f"{PART}, scale 'paper': there is no 'CE'; there are ANTIDOTE, CAL"),
    ("seeds = 1", "seed = 1", f"{PART}, scale 'smoke' lacks 'seeds'; accepted: seeds, data, options, columns, rows, "
     "choice, note"),
    (", holdout = 0.1", "", f"{PART}, scale 'cpu', choice lacks 'holdout'; accepted: protocols, noise, seed, holdout, "
     "options"),
    ('"own", noise', '"two", noise', f"{PART}, scale 'paper' has the column 'two' twice: give each a name of its own"),
    ('"own", noise', '"own", like = "one", noise', f"{PART}, scale 'paper', column has an unknown key 'like'; "
     "accepted: name, noise, figure, test, values"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_a_wrong_file_gives_one_clear_line(old, new, message):
    assert old in TEXT
    with pytest.raises(ValueError, match=r"^.*$") as refused:
        parse_paper_table("mine", TEXT.replace(old, new, 1))
    assert str(refused.value) == message
