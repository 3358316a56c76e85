"""Reading plans through the command line: written for a file, edited, and read with that file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from fuzz_files import WORDS, judged_command, text
from fuzzing import broken

CORPUS = Path(__file__).parents[1] / "io" / "plans"
KINDS = [
    "id", "yes/no", "category", "ordered", "choices", "checkbox", "number", "date", "text",
    "constant", "weight", "left out", "",
]  # fmt: skip


def edited(plan, dice):
    """A plan with some cells exchanged, a line or a column left out, or bytes that are broken."""
    what = dice.randrange(8)
    if what == 0:
        return broken(plan, dice)
    lines = list(csv.reader(io.StringIO(plan.decode())))
    if what == 1:
        del lines[dice.randrange(len(lines))]
    elif what == 2:
        place = dice.randrange(len(lines[0]))
        lines = [line[:place] + line[place + 1 :] for line in lines]
    elif what == 3:
        lines.append(dice.choice(lines))
    else:
        for _ in range(dice.choice([1, 1, 2, 5])):
            line = dice.choice(lines)
            other = dice.choice([dice.choice(KINDS), dice.choice(WORDS), dice.choice(line)])
            line[dice.randrange(len(line))] = other
    written = io.StringIO()
    csv.writer(written).writerows(lines)
    return written.getvalue().encode()


def case(dice):
    """A plan of one file, and one command that reads the file with the edited plan."""
    content = text(dice)
    if dice.random() < 0.5:
        files = sorted(path for path in CORPUS.glob("*.csv") if ".plan" not in path.name)
        content = dice.choice(files).read_bytes()
    quick = ["-k", "1", "--max-iter", "3", "--method", "max-sum"]
    then = dice.choice(
        [["factorize", "t.csv", *quick], ["cover", "t.csv"], ["complete", "t.csv", *quick]]
    )

    def run():
        Path("t.csv").write_bytes(content)
        Path("plan.csv").unlink(missing_ok=True)
        judged_command(["info", "t.csv", "--plan", "plan.csv"])
        plan = Path("plan.csv").read_bytes()
        judged_command([*then, "--plan", "plan.csv", "-o", "out.csv"])
        Path("plan.csv").write_bytes(edited(plan, dice))
        judged_command([*then, "--plan", "plan.csv", "-o", "out.csv"])

    return f"plan of t.csv ({len(content)}): {' '.join(then)}", run
