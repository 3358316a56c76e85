"""Workbooks and text files through the command line: exit code 0, or 2 and one line.

Workbooks are written by hand, as a zip archive of XML, or by xlsxwriter; then some are damaged.
"""

from __future__ import annotations

import datetime
import io as stdio
import json
import re
import zipfile
from pathlib import Path
from unittest import mock

import xlsxwriter
from commands import run_here
from fuzzing import broken
from good_files import KINDS, codes, fitted
from verdicts import FOREIGN, NAN, REFUSED, TRACEBACK, Wrong, expect, judged_error

from boolweave.cli import output

LONGEST_MESSAGE = 1000

WORDS = [
    "0", "1", "yes", "no", "", " ", "NA", "?", "2", "-1", "0.5", "1e308", "-1e308", "1e999", "x",
    "red", "blue", "a;b", "b", "2020-01-01", "31.12.1999", "١", "1,5", "&amp;", "é", "x" * 300,
    "_x0000_", "#N/A", "TRUE", "=1+1", "9" * 40, "5e-324", "a,b", "99", "-9", "1.7e308", "12:30",
]  # fmt: skip
REFERENCES = [
    "A1", "B2", "C3", "XFD1048576", "XFE1", "A1048577", "AAAAAAA1", "A0", "1A", "", "A", "7", "a1",
    "A-1", "A99999999999999999999", "ZZZ1", "Ä1", "XFD1", "A1048576", "$A$1", "B1:C2",
]  # fmt: skip
SCHEMAS = "http://schemas.openxmlformats.org"
TYPES = "application/vnd.openxmlformats"
MAIN = f'xmlns="{SCHEMAS}/spreadsheetml/2006/main"'
KIND = f"{SCHEMAS}/officeDocument/2006/relationships"
CONTENT = (
    f'<Types xmlns="{SCHEMAS}/package/2006/content-types"><Default Extension="rels" '
    f'ContentType="{TYPES}-package.relationships+xml"/><Default Extension="xml" '
    'ContentType="application/xml"/><Override PartName="/xl/workbook.xml" '
    f'ContentType="{TYPES}-officedocument.spreadsheetml.sheet.main+xml"/></Types>'
)


# ---------------------------------------------------------------- files


def cell(dice, reference):
    """A cell in XML: a number, text of any kind, a date, a formula, an error or nothing."""
    word = dice.choice(["0", "1"]) if dice.random() < 0.95 else dice.choice(WORDS)
    what = dice.randrange(9) if dice.random() < 0.15 else 0
    if what <= 3:
        return f'<c r="{reference}"><v>{word}</v></c>'
    if what == 4:
        return f'<c r="{reference}" t="inlineStr"><is><t>{word}</t></is></c>'
    if what == 5:
        number = dice.choice([0, 1, 2, 3, 99, -1, "x"])
        return f'<c r="{reference}" t="s"><v>{number}</v></c>'
    if what == 6:
        return f'<c r="{reference}" t="{dice.choice("bbbenx")}"><v>{word}</v></c>'
    if what == 7:
        formula = dice.choice(["A1+1", "SUM(A1:A9)", "", "1/0", "A1" * 99])
        return f'<c r="{reference}" t="str"><f>{formula}</f><v>{word}</v></c>'
    style = dice.choice(["0", "1", "999", "-1"])
    return dice.choice(
        ["", f'<c r="{reference}"/>', f'<c r="{reference}" s="{style}"><v>44000</v></c>']
    )


def sheet(dice):
    """A sheet in XML."""
    n, m = dice.choice([0, 1, 3, 6, 6]), dice.choice([1, 2, 4, 4])
    rows = []
    for i in range(1, n + 1):
        line = "".join(
            cell(dice, dice.choice(REFERENCES) if dice.random() < 0.02 else f"{'ABCD'[j]}{i}")
            for j in range(m)
        )
        number = dice.choice(["1048576", "0", "-1", "x", ""]) if dice.random() < 0.01 else i
        rows.append(f'<row r="{number}">{line}</row>')
    extent = dice.choice(["", "A1:D9", "A1", "XFD1048576", "A1:XFD1048576", "x", "B5:A1"])
    dimension = f'<dimension ref="{extent}"/>' if dice.random() < 0.3 else ""
    merged = ""
    if dice.random() < 0.15:
        where = dice.choice(["A1:B2", "A1:A1", "x", "A1:XFD1048576", "B2:A1"])
        merged = f'<mergeCells count="1"><mergeCell ref="{where}"/></mergeCells>'
    return (
        f"<worksheet {MAIN}>{dimension}<sheetData>{''.join(rows)}</sheetData>{merged}</worksheet>"
    )


def link(number, kind, target):
    return f'<Relationship Id="rId{number}" Type="{KIND}/{kind}" Target="{target}"/>'


def links(content):
    return f'<Relationships xmlns="{SCHEMAS}/package/2006/relationships">{content}</Relationships>'


def workbook_by_hand(dice):
    names = [
        dice.choice(["Sheet1", "", "a/b", "é", "x" * 50]) for _ in range(dice.choice([1, 1, 2]))
    ]
    hidden = dice.choice(["", ' state="hidden"', ' state="veryHidden"'])
    listed = "".join(
        f'<sheet name="{name}" sheetId="{i + 1}" r:id="rId{i + 1}"{hidden if i == 0 else ""}/>'
        for i, name in enumerate(names)
    )
    linked = "".join(
        link(i + 1, "worksheet", f"worksheets/sheet{i + 1}.xml") for i in range(len(names))
    )
    linked += link(90, "sharedStrings", "sharedStrings.xml") + link(91, "styles", "styles.xml")
    shared = "".join(f"<si><t>{dice.choice(WORDS)}</t></si>" for _ in range(3))
    parts = {
        "[Content_Types].xml": CONTENT,
        "_rels/.rels": links(link(1, "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook {MAIN} xmlns:r="{KIND}"><sheets>'
        f"{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": links(linked),
        "xl/sharedStrings.xml": f"<sst {MAIN}>{shared}</sst>",
        "xl/styles.xml": f'<styleSheet {MAIN}><cellXfs count="2"><xf numFmtId="0"/>'
        '<xf numFmtId="14"/></cellXfs></styleSheet>',
        **{f"xl/worksheets/sheet{i + 1}.xml": sheet(dice) for i in range(len(names))},
    }  # fmt: skip
    if dice.random() < 0.05:
        del parts[dice.choice(list(parts))]
    if dice.random() < 0.05:
        name = dice.choice(list(parts))
        parts[name] = broken(parts[name].encode(), dice)
    return zipped(parts)


def zipped(parts):
    file = stdio.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def write_cell(dice, page, place, style):
    what = dice.randrange(6)
    if what == 0:
        page.write_string(*place, dice.choice(WORDS))
    elif what == 1:
        page.write_boolean(*place, dice.random() < 0.5)
    elif what == 2:
        page.write_blank(*place, None, style)
    elif what == 3:
        page.write_formula(*place, "=1/0", None, dice.choice(["#DIV/0!", 1]))
    elif what == 4:
        page.write_datetime(*place, datetime.datetime(2020, 2, 29, 12), style)
    else:
        page.write_number(*place, dice.choice([-1, 2.5, 1e308, 3e6]), style)


def workbook_by_library(dice):
    file = stdio.BytesIO()
    with xlsxwriter.Workbook(file, {"in_memory": True, "nan_inf_to_errors": True}) as book:
        days = book.add_format({"num_format": dice.choice(["yyyy-mm-dd", "hh:mm", "0%", "@"])})
        for s in range(dice.choice([1, 1, 2])):
            page = book.add_worksheet()
            if dice.random() < 0.1 and s:
                page.hide()
            n, m = dice.choice([0, 1, 4, 9]), dice.choice([1, 2, 4])
            top, left = dice.choice([0, 0, 0, 2, 1000]), dice.choice([0, 0, 0, 1, 50])
            header = dice.random() < 0.7
            for i in range(n):
                for j in range(m):
                    place = top + i, left + j
                    if i == 0 and header:
                        page.write_string(*place, dice.choice(["a", "", " ", "1", "é"])
                                          if dice.random() < 0.1 else f"c{j}")  # fmt: skip
                    elif dice.random() < 0.93:
                        page.write_number(*place, dice.choice([0, 1]))
                    else:
                        write_cell(dice, page, place, days)
            if dice.random() < 0.1:
                page.merge_range(top, left, top + 1, left + 1, "merged")
            if dice.random() < 0.02:
                page.write_number(1048575, 16383, 1)
    return file.getvalue()


def text(dice):
    """A table as text, of words that tables have and of some that they should not have."""
    sep = dice.choice([",", ",", ";", "\t", "|", " "])
    n, m = dice.choice([0, 1, 3, 8, 8, 20]), dice.choice([1, 2, 4, 4])
    columns = [
        [dice.choice(WORDS) for _ in range(dice.choice([1, 2, 3]))]
        if dice.random() < 0.25
        else ["0", "1"]
        for _ in range(m)
    ]
    lines = [
        sep.join(
            dice.choice(["a", "b", "", "c d", '"q"', "1"]) if dice.random() < 0.2 else f"c{j}"
            for j in range(m)
        )
    ]
    lines += [
        sep.join(dice.choice(column) for column in columns[: dice.choice([m] * 30 + [m - 1])])
        for _ in range(n)
    ]
    end = dice.choice(["\n", "\n", "\r\n", "\r"])
    return (end.join(lines) + dice.choice(["", end])).encode(
        dice.choice(["utf-8"] * 9 + ["utf-16"])
    )


def input_file(dice):
    """The name and the bytes of a file."""
    what = dice.randrange(10)
    if what <= 2:
        content = workbook_by_hand(dice)
    elif what <= 4:
        content = workbook_by_library(dice)
    elif what <= 7:
        return dice.choice(["t.csv", "t.csv", "t.tsv", "t.txt", "t.dat"]), text(dice)
    else:
        name, content = dice.choice(list(KINDS["text"]()))
        return name, broken(content, dice) if dice.random() < 0.6 else content
    if dice.random() < 0.05:
        content = broken(content, dice)
    return dice.choice(["t.xlsx"] * 9 + ["t.csv"]), content


# ---------------------------------------------------------------- commands


def reading(dice):
    """Options of how a file is read."""
    every = {
        "--header": None, "--no-header": None, "--labels": ["yes", "no", "ignore"],
        "--layout": ["wide", "triples", "pairs"], "--above": ["mean", "median", "0.5", "nan", "x"],
        "--absent": ["zero", "missing"], "--duplicates": ["majority"], "--ones": ["x,red", "1"],
        "--zeros": ["-,blue", "0"], "--missing": ["99,-9", "x"], "--use": ["a", "1,2", "x", "0"],
        "--drop": ["a", "1"], "--index": ["id", "1", "9"], "--delimiter": [";", "tab", "ab"],
        "--columns": ["1,2,3", "a,b", "x"], "--input-format": ["csv", "xlsx", "fimi", "parquet"],
        "--encode": ["never", "a=category", "a=1,0", "b=split:;", "a=drop", "x", "a="],
    }  # fmt: skip
    chosen = []
    for name, values in every.items():
        if dice.random() < 0.02:
            chosen += [name] if values is None else [name, dice.choice(values)]
    return chosen


def command(dice, name):
    """A command that reads the file."""
    what = dice.choice(["info"] * 5 + ["factorize"] * 3 + ["cover"] * 3
                       + ["complete", "complete", "rank", "group-test", "transform", "predict",
                          "recommend", "explain", "report", "decode"])  # fmt: skip
    quick = ["-k", "1", "--max-iter", "3"]
    output = dice.choice(
        [[], ["-o", "out.csv"], ["-o", "out.xlsx"], ["-o", "out.parquet"], ["--json"]]
    )
    if what == "info":
        return ["info", name, *dice.choice([[], ["--json"], ["-k", "2"]]), *reading(dice)]
    if what == "factorize":
        how = dice.choice(
            [[*quick, "--method", "max-sum"], ["-k", "2"], [*quick, "--hold-out", "0.2"]]
        )
        more = dice.choice([[], ["--model", "m.npz"], ["--report", "r.html"], ["--full"]])
        return ["factorize", name, *how, *more, *output, *reading(dice)]
    if what == "complete":
        how = dice.choice([["--members", "1"], [*quick, "--method", "max-sum"], quick])
        more = dice.choice(
            [[], ["--fill", "probabilities"], ["--hold-out", "0.2"], ["--report", "r.html"]]
        )
        return ["complete", name, *how, *more, *output, *reading(dice)]
    if what == "cover":
        more = dice.choice(
            [[], ["--coverage", "0.8"], ["--false-ones", "1"], ["--report", "r.html"]]
        )
        return ["cover", name, *more, *output, *reading(dice)]
    if what == "rank":
        return ["rank", name, "--max-iter", "5", *output, *reading(dice)]
    if what == "group-test":
        return ["group-test", name, dice.choice(["outcomes.csv", name]), "--prevalence",
                dice.choice(["0.1", "learn"]), *output]  # fmt: skip
    if what == "predict":
        return ["predict", "good.npz", name, *output]
    if what == "decode":
        return ["decode", "good.alist", name, *output]
    if what == "explain":
        return ["explain", "good.npz", "a", "w", "--new", name]
    if what == "report":
        return ["report", "good.npz", "-o", "r.html", "--held-out", name]
    new = ["--new", name, "-n", "2"] if what == "recommend" else [name]
    return [what, "good.npz", *new, *output, *reading(dice)]


def beside():
    """Good files that some commands need, written once into the working directory."""
    if not Path("good.npz").exists():
        Path("good.alist").write_bytes(next(codes())[1])
        Path("llr.txt").write_text("1.5 -0.5 2\n")
        Path("outcomes.csv").write_text("pool,outcome\nAnn,1\nBo,0\n")
        next(fitted())[1].save("good.npz")


def case(dice):
    """One file through one command."""
    name, content = input_file(dice)
    arguments = command(dice, name)

    def run():
        beside()
        for old in ("out.csv", "out.xlsx", "out.parquet", "r.html", "m.npz"):
            Path(old).unlink(missing_ok=True)
        Path(name).write_bytes(content)
        judged_command(arguments)

    return f"{name} ({len(content)}): {' '.join(arguments)}", run


def judged_command(arguments):
    """Run a command in this process; raise unless it ends as it should, or what it complains of."""
    errors, one_line = [], output.one_line

    def noted(error):
        errors.append(error)
        return one_line(error)

    with mock.patch.object(output, "one_line", noted):
        done = run_here(*arguments)
    judge(done, errors)


def judge(done, errors=()):
    """Raise for all but exit code 0, and 2 with one clear line."""
    said = done.stderr.decode("utf-8", "replace")
    printed = done.stdout.decode("utf-8", "replace")
    if "Traceback" in said or done.returncode not in (0, 2):
        raise Wrong(f"exit code {done.returncode}: {said[-1500:]}", TRACEBACK)
    if re.search(r"(Runtime|Deprecation|Future|User)Warning|site-packages|panicked", said):
        raise Wrong(said[-1500:], FOREIGN)
    if done.returncode == 0:
        if re.search(r"(?<![\w\"-])(nan|NaN)(?![\w\"-])", printed):
            raise Wrong(f"NaN is printed: {printed[:500]}", NAN)
        if "--json" in done.args:
            json.loads(printed)
        return
    complaints = [line for line in said.splitlines() if line.startswith("boolweave: ")]
    expect(len(complaints) >= 1, f"no line says what is wrong: {said}")
    expect(len(complaints[-1]) < LONGEST_MESSAGE, "a message of many lines")
    expect(not printed or "--json" not in done.args, "data were written in spite of an error")
    for error in errors:
        if (outcome := judged_error(error)) != REFUSED:
            raise Wrong(f"{type(error).__name__}: {error}", outcome)
        raise error
