"""Answers to a survey: how well hidden ones are predicted, and factors as features.

The survey is `surveys/flying-etiquette.csv` in $BOOLWEAVE_DATA.

answers: 15% of the answers are hidden, in ten random splits. `BooleanCompletion` predicts them, and
says by cross-validation of the others how well it will do. On the same splits, it is compared with
the most frequent answer to each question, and with a random forest for each question, whose
features are the answers to all other questions.

features: for every yes/no question, a line shows how many answers are right in three-fold
cross-validation: the more frequent answer, and a logistic regression on all other answers (one
column for each), on six factors of NMF, and on six factors of `BooleanMatrixFactorization` as bits
and as probabilities. NMF needs a zero for a missing answer.

    BOOLWEAVE_DATA=data python benchmarks/tables.py
    BOOLWEAVE_DATA=data python benchmarks/tables.py --only answers --splits 2
    BOOLWEAVE_DATA=data python benchmarks/tables.py --only features --question recline --splits 5

All splits and questions together, the default, are stored in benchmarks/results/tables.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.decomposition import NMF
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from boolweave import BooleanCompletion, BooleanMatrixFactorization, Observations, TableEncoder
from boolweave.metrics import answer_scores

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))
from provenance import record  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "tables.json"
SURVEY = Path("surveys") / "flying-etiquette.csv"
N_FACTORS = 6
HIDDEN, N_SPLITS = 0.15, {"answers": 10, "features": 1}

# A column with more answers than this is an id.
MOST_ANSWERS = 30


def indicators(survey: pl.DataFrame) -> np.ndarray:
    """A column of 0 and 1 for each answer of each question, NaN where there is none."""
    columns = []
    for question in survey.columns:
        given = survey[question].to_list()
        answers = sorted({answer for answer in given if answer is not None})
        if len(answers) <= MOST_ANSWERS:
            columns += [
                [np.nan if cell is None else float(cell == answer) for cell in given]
                for answer in answers
            ]
    return np.array(columns).T


def yes_or_no(survey: pl.DataFrame) -> list[str]:
    """The questions whose answers begin with Yes and No."""
    return [
        question
        for question in survey.columns
        if {answer[:3].strip(", ") for answer in survey[question].drop_nulls()} == {"Yes", "No"}
        and survey[question].n_unique() == 3
    ]


def shares_right(survey: pl.DataFrame, question: str, n_splits: int) -> dict[str, float]:
    """The share of right answers by each kind of features, a mean over splits."""
    asked = survey.filter(pl.col(question).is_not_null())
    y = asked[question].str.starts_with("Yes").to_numpy()
    X = indicators(asked.drop(question))
    factors = {
        output: BooleanMatrixFactorization(N_FACTORS, random_state=0, output=output)
        for output in ("bits", "probability")
    }
    features = {
        "one-hot": ([], np.nan_to_num(X)),
        "NMF": ([NMF(N_FACTORS, random_state=0, max_iter=500)], np.nan_to_num(X)),
        **{output: ([model], X) for output, model in factors.items()},
    }
    shares = {"mode": max(y.mean(), 1 - y.mean())}
    for name, (steps, data) in features.items():
        pipeline = make_pipeline(*steps, LogisticRegression(max_iter=2000))
        shares[name] = np.mean(
            [
                cross_val_score(
                    pipeline, data, y, cv=StratifiedKFold(3, shuffle=True, random_state=i)
                )
                for i in range(n_splits)
            ]
        )
    return shares


def answers_right(survey: pl.DataFrame, split: int) -> dict[str, float]:
    """How well hidden answers are predicted, and how well the model says that it does."""
    encoder = TableEncoder().fit(survey)
    questions = encoder.questions_
    seen = Observations.from_data(encoder.transform(survey))
    kept, rows, columns, values = seen.hide(HIDDEN, random_state=split, groups=questions)
    model = BooleanCompletion(random_state=split).fit(kept, groups=questions)
    chances = model.predict_proba(rows, columns)
    scores = answer_scores(rows, columns, values, chances, questions)
    hidden = Observations.from_triples(rows, columns, values, shape=seen.shape)
    shown, wanted = encoder.inverse_transform(kept.to_dense()), hidden.to_dense()
    right, by_forest, by_mode, n = 0, 0, 0, 0
    asked = encoder.inverse_transform(wanted)
    filled = encoder.most_probable(model.ensemble_.row_probabilities(np.arange(seen.n_rows)))
    X = np.nan_to_num(kept.to_dense(), nan=-1.0)
    of_question = _columns_of(encoder)
    for question, own in of_question.items():
        truth = np.array(asked[question].to_list(), dtype=object)
        given = np.array(shown[question].to_list(), dtype=object)
        test, train = truth != None, given != None  # noqa: E711
        forest = RandomForestClassifier(random_state=split)
        forest.fit(np.delete(X[train], own, axis=1), given[train].astype(str))
        guess = forest.predict(np.delete(X[test], own, axis=1))
        levels, counts = np.unique(given[train].astype(str), return_counts=True)
        names = truth[test].astype(str)
        n += len(names)
        by_forest += int(np.sum(guess == names))
        by_mode += int(np.sum(levels[counts.argmax()] == names))
        right += int(np.sum(np.array(filled[question].to_list(), dtype=str)[test] == names))
    assert n == scores.n_answers
    return {
        "answers": n,
        "reported": model.selection_[0]["log_loss"],
        "log_loss": scores.log_loss,
        "calibration": scores.calibration_error,
        "right": right / n,
        "mode": by_mode / n,
        "forest": by_forest / n,
    }


def _columns_of(encoder: TableEncoder) -> dict[str, np.ndarray]:
    """The encoded columns of each column of the survey."""
    lines = [line.name for line in encoder.plan_ if line.is_encoded]
    groups = encoder.questions_.groups
    assert len(lines) == groups.max() + 1  # each column is a question
    return {name: np.flatnonzero(groups == number) for number, name in enumerate(lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=sorted(N_SPLITS), help="one of the two parts")
    parser.add_argument("--question", default="", help="questions that contain this text")
    parser.add_argument("--splits", type=int, help="number of random splits")
    chosen = parser.parse_args()
    path = Path(os.environ.get("BOOLWEAVE_DATA", ".")) / SURVEY
    if not path.exists():
        parser.exit(2, f"{path} is not there; set BOOLWEAVE_DATA to the folder of the surveys\n")
    warnings.simplefilter("ignore")  # some fits do not converge, which is no matter here
    survey = pl.read_csv(path, infer_schema=False)
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    parts = [chosen.only] if chosen.only else sorted(N_SPLITS)
    for part in parts:
        n_splits = chosen.splits or N_SPLITS[part]
        lines = []
        if part == "answers":
            for split in range(n_splits):
                lines.append({"split": split, **answers_right(survey, split)})
                print("  ".join(f"{name} {x:.4g}" for name, x in lines[-1].items()), flush=True)
        else:
            for question in yes_or_no(survey):
                if chosen.question in question:
                    shares = shares_right(survey, question, n_splits)
                    lines.append({"question": question, **shares})
                    figures = "  ".join(f"{name} {share:.1%}" for name, share in shares.items())
                    print(f"{question[:50]:<50}  {figures}", flush=True)
        stored[part] = lines
    if chosen.splits is None and not chosen.question:
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        record(RESULTS, ("completion", "encoding", "estimator", "engine", "fit"), parts)


if __name__ == "__main__":
    main()
