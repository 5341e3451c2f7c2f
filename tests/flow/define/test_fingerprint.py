import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from arco.flow.define import code_fingerprint, find_problems, load_project
from arco.flow.define.fingerprint import changed_parts, limit_parts
from tests.flow.define.projects import asset_of, load, prints, write

SHOP = {
    "pipelines/__init__.py": "",
    "pipelines/orders.py": '''
        """Orders of the shop."""
        from shared.money import to_cents
        from shared import money as m, shapes
        import shared.deep.rates

        DAYS = Daily("ds", start="2026-01-01")
        LIMIT = 10
        OTHER = 20
        WINDOW = 7
        CONFIG = {}
        CONFIG["cut"] = 3
        source("raw.orders", partitions=DAYS)

        def clean(rows, least=LIMIT):
            """Without the small ones."""
            return [row for row in rows if row > least]

        @asset("silver.orders", partitions=DAYS, retries=1, checks=[c.not_null("id")])
        def orders(raw=table("raw.orders")):
            """Clean orders."""
            return clean(raw)

        @asset("silver.cents", partitions=DAYS)
        def cents(orders, factor=2):
            # a parameter called like a function is not that function
            return [to_cents(each) * factor for each in orders]

        @asset("silver.week", partitions=DAYS)
        def week(orders=table("silver.orders", window=WINDOW)):
            return shapes.Week(orders).total()

        @asset("gold.rate", partitions=DAYS)
        def rate(orders):
            def inner(x):
                return x * shared.deep.rates.RATE
            return [inner(each) for each in orders]

        @asset("gold.config", partitions=DAYS)
        def config(orders):
            from shared.late import late
            return late(orders, CONFIG["cut"])

        sql("gold.sql", path="gold.sql", partitions=DAYS)

        @task(reads=["gold.rate"])
        def train(ctx):
            return OTHER
    ''',
    "pipelines/gold.sql": "-- how much\nselect id,\n  'a  b' as x from silver.orders /* all */",
    "shared/money.py": """
        from shared.deep.rates import rounded

        CENTS = 100
        UNUSED = 1

        def to_cents(amount):
            return rounded(amount * CENTS)

        def unused():
            return UNUSED
    """,
    "shared/deep/rates.py": "RATE = 3\ndef rounded(x):\n    return int(x)\n",
    "shared/shapes.py": """
        class Base:
            def size(self):
                return 1

        class Week(Base):
            def __init__(self, rows):
                self.rows = rows

            def total(self):
                return sum(self.rows) * self.size()
    """,
    "shared/late.py": "def late(rows, cut):\n    return rows[:cut]\n",
}
ORDERS, MONEY = "pipelines/orders.py", "shared/money.py"
SHAPES, RATES = "shared/shapes.py", "shared/deep/rates.py"
ALL = {
    "silver.orders",
    "silver.cents",
    "silver.week",
    "gold.rate",
    "gold.config",
    "gold.sql",
    "train",
}


def changed(tmp_path: Path, files: Mapping[str, str]) -> set[str]:
    """The assets whose fingerprint is another one with these files in place of the shop's own."""
    before = prints(load(tmp_path / "before", SHOP))
    after = prints(load(tmp_path / "after", {**SHOP, **files}))
    assert set(before) == ALL
    return {name for name in before if before[name] != after[name]}


def edited(file: str, old: str, new: str) -> dict[str, str]:
    assert SHOP[file].count(old) == 1, f"{old!r} is not in {file} once"
    return {file: SHOP[file].replace(old, new)}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (ORDERS, "LIMIT = 10", "LIMIT = 10  # not more"),
        (ORDERS, "# a parameter called", "# any parameter called"),
        (ORDERS, "return clean(raw)", "\n\n            return (  clean( raw ) )\n"),
        (ORDERS, "Without the small ones.", "Without the tiny ones."),
        (ORDERS, "Clean orders.", "Orders, cleaned."),
        (ORDERS, '"""Orders of the shop."""', ""),
        (ORDERS, '"""Clean orders."""', ""),
        (ORDERS, 'CONFIG["cut"])', "CONFIG['cut'])"),
        (ORDERS, 'retries=1, checks=[c.not_null("id")]', 'retries=5, pool="big", tags=["x"]'),
        (ORDERS, 'table("raw.orders")', 'table("default.raw.orders", mapping=identity)'),
        (ORDERS, 'DAYS = Daily("ds", start="2026-01-01")', 'DAYS = Daily("ds", "2020-01-01")'),
        (ORDERS, "from shared.money import to_cents", "from shared.money import to_cents, unused"),
        (MONEY, "UNUSED = 1", "UNUSED = 2"),
        (MONEY, "return UNUSED", "return UNUSED + 1"),
        (MONEY, "UNUSED = 1", "UNUSED = 1\n        def more(): return 1"),
        ("pipelines/gold.sql", "-- how much\nselect id,\n", "select id , -- the id\n\n"),
        ("pipelines/gold.sql", " /* all */", ";"),
    ],
)
def test_what_means_nothing_changes_nothing(tmp_path: Path, file: str, old: str, new: str) -> None:
    assert changed(tmp_path, edited(file, old, new)) == set()


@pytest.mark.parametrize(
    ("file", "old", "new", "whose"),
    [
        (ORDERS, "row > least", "row >= least", {"silver.orders"}),
        (ORDERS, "return clean(raw)", "return clean(raw)[1:]", {"silver.orders"}),
        (ORDERS, "LIMIT = 10", "LIMIT = 11", {"silver.orders"}),
        (ORDERS, "LIMIT = 10", "LIMIT = 10.0", {"silver.orders"}),
        (ORDERS, "LIMIT = 10", "LIMIT = 10\n        LIMIT += 1", {"silver.orders"}),
        (ORDERS, "least=LIMIT", "least=OTHER", {"silver.orders"}),
        (ORDERS, "factor=2", "factor=3", {"silver.cents"}),
        (ORDERS, "OTHER = 20", "OTHER = 21", {"train"}),
        (ORDERS, "WINDOW = 7", "WINDOW = 8", {"silver.week"}),
        (ORDERS, 'CONFIG["cut"] = 3', 'CONFIG["cut"] = 4', {"gold.config"}),
        (ORDERS, 'CONFIG["cut"] = 3', "CONFIG.update(cut=3)", {"gold.config"}),
        (ORDERS, "shared.deep.rates.RATE", "-shared.deep.rates.RATE", {"gold.rate"}),
        (ORDERS, "retries=1,", 'mode="append",', {"silver.orders"}),
        (ORDERS, "retries=1,", 'format="parquet",', {"silver.orders"}),
        (ORDERS, 'start="2026-01-01")', 'start="2026-01-01", tz="Europe/Paris")', ALL),
        (MONEY, "CENTS = 100", "CENTS = 10", {"silver.cents"}),
        (MONEY, "amount * CENTS", "CENTS * amount", {"silver.cents"}),
        (RATES, "int(x)", "round(x)", {"silver.cents"}),
        (RATES, "RATE = 3", "RATE = 4", {"gold.rate"}),
        (SHAPES, "sum(self.rows)", "max(self.rows)", {"silver.week"}),
        (SHAPES, "return 1", "return 2", {"silver.week"}),
        ("shared/late.py", "rows[:cut]", "rows[cut:]", {"gold.config"}),
        ("pipelines/gold.sql", "'a  b'", "'a b'", {"gold.sql"}),
        ("pipelines/gold.sql", "select id", "select distinct id", {"gold.sql"}),
    ],
)
def test_a_change_changes_exactly_what_uses_it(
    tmp_path: Path, file: str, old: str, new: str, whose: set[str]
) -> None:
    assert changed(tmp_path, edited(file, old, new)) == whose


def test_moving_a_function_changes_nothing(tmp_path: Path) -> None:
    clean = SHOP[ORDERS][
        SHOP[ORDERS].index("        def clean") : SHOP[ORDERS].index("        @asset")
    ]
    within = SHOP[ORDERS].replace(clean, "") + "\n" + clean
    assert changed(tmp_path / "within", {ORDERS: within}) == set()
    money = SHOP[MONEY].replace("from shared", "from shared.deep import rates\n        from shared")
    moved = {
        MONEY: "from shared.cash import *\n",
        "shared/cash.py": money,
    }
    assert changed(tmp_path / "away", moved) == set()


def test_two_helpers_that_change_their_names_with_each_other_are_a_change(tmp_path: Path) -> None:
    text = """
        from shared import one as a, two as b

        @asset("a.a")
        def x():
            return a() - b()
    """
    shared = "def one(): return 1\ndef two(): return 2\n"
    swapped = text.replace("one as a, two as b", "two as a, one as b")
    before = prints(load(tmp_path / "1", {"shared.py": shared, "pipelines/a.py": text}))
    after = prints(load(tmp_path / "2", {"shared.py": shared, "pipelines/a.py": swapped}))
    assert before != after


def test_another_library_function_under_the_same_name_is_a_change(tmp_path: Path) -> None:
    text = "from math import {0} as f\n@asset('a.a')\ndef x(): return f(2.5)\n"
    fingerprints = [
        prints(load(tmp_path / name, {"pipelines/a.py": text.format(name)}))["a.a"]
        for name in ("floor", "ceil")
    ]
    assert fingerprints[0] != fingerprints[1]


def test_assets_of_a_factory_differ_by_what_they_hold(tmp_path: Path) -> None:
    text = """
        def make(name, factor, limit):
            @asset(f"a.{name}", retries=1)
            def made(bound=limit):
                return factor * bound

        make("one", 1, 5)
        make("same", 1, 5)
        make("two", 2, 5)
        make("three", 1, 6)
    """
    fingerprints = prints(load(tmp_path, {"pipelines/a.py": text}))
    assert fingerprints["a.one"] == fingerprints["a.same"]
    assert len({fingerprints["a.one"], fingerprints["a.two"], fingerprints["a.three"]}) == 3
    fingerprints_with_more_retries = prints(
        load(tmp_path / "b", {"pipelines/a.py": text.replace("retries=1", "retries=2")})
    )
    assert fingerprints_with_more_retries == fingerprints


def test_the_code_of_ones_own_decorator_and_mapping_counts(tmp_path: Path) -> None:
    text = """
        from shared import doubled, before
        source("raw.a", partitions=Daily("ds", start="2026-01-01"))

        @asset("a.a", partitions=Daily("ds", start="2026-01-01"))
        @doubled
        def x(a=table("raw.a", partitions=before)):
            return a
    """
    shared = """
        import functools

        def doubled(function):
            def wrapper(a=None):
                return function(a) * 2
            return wrapper

        def before(key):
            return [key]
    """
    wrapped = shared.replace("def wrapper", "@functools.wraps(function)\n            def wrapper")
    files = {"pipelines/a.py": text, "shared.py": wrapped}
    first = prints(load(tmp_path / "1", files))
    for edit in (wrapped.replace("* 2", "* 3"), wrapped.replace("[key]", "[key, key]")):
        assert prints(load(tmp_path / "2", {**files, "shared.py": edit})) != first
    body = text.replace("return a\n", "return a + a\n")
    assert prints(load(tmp_path / "3", {**files, "pipelines/a.py": body})) != first


def test_a_decorator_that_hides_its_function_does_not_hide_its_code(tmp_path: Path) -> None:
    text = """
        from shared import doubled
        source("raw.a")

        @asset("a.a")
        @doubled
        def x(rows):
            return rows
    """
    shared = """
        def doubled(function):
            def wrapper(a):
                return function(a) * 2
            return wrapper
    """
    files = {"pipelines/a.py": text, "shared.py": shared}
    first = prints(load(tmp_path / "1", files))
    body = text.replace("return rows", "return rows[1:]")
    assert prints(load(tmp_path / "2", {**files, "pipelines/a.py": body})) != first
    outer = shared.replace("* 2", "* 3")
    assert prints(load(tmp_path / "3", {**files, "shared.py": outer})) != first


def test_the_fingerprint_is_of_what_was_loaded_not_of_a_later_edit(tmp_path: Path) -> None:
    project = load(tmp_path, SHOP)
    before = prints(project)
    write(tmp_path, edited(MONEY, "CENTS = 100", "CENTS = 1"))
    assert prints(project) == before
    after = load_project(tmp_path)
    cents = asset_of(after, "silver.cents")
    assert code_fingerprint(cents, after) != before["silver.cents"]


def test_the_fingerprint_is_the_same_elsewhere_and_with_another_hash_seed(tmp_path: Path) -> None:
    text = "KINDS = {'a', 'b', 'c', 'd'}\ndef make(kinds):\n    @asset('a.a')\n"
    text += "    def x(): return kinds\nmake(KINDS)\n"
    files = {**SHOP, "pipelines/kinds.py": text}
    fingerprints = prints(load(tmp_path / "here", files))
    other_folder = write(tmp_path / "far" / "away", files)
    script = (
        "import sys\nfrom pathlib import Path\nfrom arco.flow.define import load_project\n"
        "from tests.flow.define.projects import prints\n"
        "print(sorted(prints(load_project(Path(sys.argv[1]))).items()))\n"
    )
    for seed in ("1", "2"):
        reported = subprocess.run(
            [sys.executable, "-c", script, str(other_folder)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert reported.stdout.strip() == str(sorted(fingerprints.items()))


@pytest.mark.parametrize(
    "use",
    [
        "from shared.steps import step\ndef run(): return step()",
        "from shared import step\ndef run(): return step()",
        "from shared import *\ndef run(): return step()",
        "import shared as s\ndef run(): return s.steps.step()",
        "def run():\n    import shared.steps as t\n    return t.step()",
        "def run():\n    from shared.steps import step as other\n    return other()",
        (
            "try:\n    from shared.steps import step\nexcept ImportError:\n    step = None\n"
            "def run(): return step()"
        ),
        (
            "from shared import steps\ndef call(module): return module.step()\n"
            "def run(): return call(steps)"
        ),
        "from shared.steps import step\nrun = lambda: step()",
        "from shared.steps import step\nSTEPS = [step]\ndef run(): return STEPS[0]()",
        "from shared.steps import step\nSTEPS = []\nSTEPS.append(step)\ndef run(): return STEPS[0]()",
        "from functools import partial\nfrom shared.steps import step\nrun = partial(step)",
        "from shared.steps import Steps\nclass Mine(Steps): pass\ndef run(): return Mine().step()",
    ],
)
def test_a_helper_counts_however_it_is_reached(tmp_path: Path, use: str) -> None:
    base = {
        "shared/__init__.py": "from .steps import *\nfrom . import steps\n",
        "shared/steps.py": (
            "from .size import SIZE\ndef step(): return SIZE\n"
            "class Steps:\n    def step(self): return SIZE\n"
        ),
        "shared/size.py": "SIZE = 1\nOTHER = 1\n",
        "pipelines/a.py": use + "\n@asset('a.a')\ndef a():\n    return run()\n"
        "@asset('a.b')\ndef b():\n    return 1\n",
    }
    project = load(tmp_path / "1", base)
    first = prints(project)
    function = asset_of(project, "a.a").function
    assert function is not None
    assert function() == 1
    bigger = prints(load(tmp_path / "2", {**base, "shared/size.py": "SIZE = 2\nOTHER = 1\n"}))
    assert bigger["a.a"] != first["a.a"]
    assert bigger["a.b"] == first["a.b"]
    other = prints(load(tmp_path / "3", {**base, "shared/size.py": "SIZE = 1\nOTHER = 2\n"}))
    assert other == first


@pytest.mark.parametrize(
    ("asset", "file", "old", "new", "named"),
    [
        ("silver.orders", ORDERS, "LIMIT = 10", "LIMIT = 11", "constant LIMIT changed"),
        ("silver.orders", ORDERS, "row > least", "row >= least", "function clean changed"),
        ("silver.cents", MONEY, "CENTS = 100", "CENTS = 10", "constant CENTS changed"),
        ("silver.cents", ORDERS, "factor=2", "factor=3", "default values changed"),
        ("silver.week", SHAPES, "return 1", "return 2", "class Base changed"),
        ("gold.sql", "pipelines/gold.sql", "select id", "select no", "query changed"),
        ("silver.orders", ORDERS, "retries=1", "mode='append'", "option mode changed"),
        ("silver.cents", MONEY, "amount * CENTS", "amount", "constant CENTS removed"),
    ],
)
def test_the_parts_of_the_code_name_what_has_changed(
    tmp_path: Path, asset: str, file: str, old: str, new: str, named: str
) -> None:
    def parts(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
        return load(folder, files).code_parts[f"default.{asset}"]

    before = parts(tmp_path / "before", SHOP)
    assert changed_parts(before, parts(tmp_path / "same", SHOP)) == ()
    assert named in changed_parts(before, parts(tmp_path / "n", SHOP | edited(file, old, new)))


def test_parts_that_are_too_many_to_be_recorded_are_still_compared() -> None:
    parts = {f"function f{number}": f"{number:012}" for number in range(300)}
    limited = limit_parts(parts, 4_000)
    assert 3_500 < len(json.dumps(limited, separators=(",", ":"))) <= 4_000
    assert limit_parts(limited, 4_000) == limited
    others = "other parts changed, which are too many to be recorded"
    assert changed_parts(limited, parts) == ()
    assert changed_parts(limited, parts | {"function f0": "x"}) == ("function f0 changed",)
    for changed in ({"function f299": "x"}, {"function new": "x"}):
        assert changed_parts(limited, parts | changed) == (others,)
    fewer = {name: part for name, part in parts.items() if name != "function f0"}
    assert changed_parts(limited, fewer) == ("function f0 removed",)


# Each value and rule of Arco that can enter a fingerprint, captured or declared.
RECORDED = """
from arco import *
from arco import checks as c
raw = source("raw.orders", partitions=[Daily("ds", start="2026-01-01"), Static("region", ["eu"])])
other = source("raw.other", partitions=Hourly("h", start="2026-01-01T00"))
plain = source("raw.plain")
def chosen(key): return [key]
def make(name, *held):
    @asset(name, partitions=Daily("ds", start="2026-01-01"))
    def made(raw=table("raw.orders"), n=held):
        return raw, held
HELD = [
    *(Daily("ds", start="2026-01-01"), Weekly("w", start="2026-W01"), Monthly("m", start="2026-01")),
    *(Hourly("h", start="2026-01-01T00"), Static("s", ["a"]), Dynamic("d"), Retry(3, delay="5s")),
    *(merge(on=["a"]), c.not_null("a"), table("raw.orders", window=3), identity, roll_up, latest),
    *(all_partitions, custom(chosen), window(7), offset(-1), raw, raw.partitions, Daily, table, check),
]
for number, held in enumerate(HELD):
    make(f"held.n{number}", held)
RULES = [
    *(c.not_null("a"), c.unique("a"), c.expr("a > 1"), c.row_count(min=1), c.range("a", min=1)),
    *(c.accepted_values("a", [1]), c.freshness("3h"), c.sql("select * from raw.plain")),
    c.references("a", "raw.plain"),
]
@asset("gold.rules", checks=RULES)
def rules(plain): return plain
@check("gold.rules")
def judged(df): return chosen(df) == 1
@asset("gold.custom", partitions=[Daily("ds", start="2026-01-01"), Static("region", ["eu"])])
def customs(raw=table("raw.orders", partitions=chosen)): return raw
@asset("gold.modes", mode=merge(on=["a"]), partitions=Daily("ds", start="2026-01-01"))
def modes(raw=table("raw.orders", window=7), other=table("raw.other")): return raw
sql("gold.q", query="select  a -- x\\n from raw.plain p /* y */ join raw.orders using (a) ;")
@task(reads=["raw.plain", table("raw.orders", partitions="all")], writes=["gold.t"])
def t(ctx): return chosen(ctx)
"""


def test_recorded_fingerprints_stay_as_they_are(tmp_path: Path) -> None:
    """A fingerprint is stored: if this fails, an upgrade would make every asset of its kind stale."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.py").write_text(RECORDED)
    project = load_project(tmp_path)
    assert find_problems(project) == []
    recorded = json.dumps([project.fingerprints, project.checks_fingerprints], sort_keys=True)
    digest = hashlib.sha256(recorded.encode()).hexdigest()
    assert digest == "fe6dc732dcee3e367be07faff716791da4c9b85e7c22c074f0fda1c4e3e8fc62"
