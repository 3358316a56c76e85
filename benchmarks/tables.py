"""Factors of a survey as features: how well they predict one of its yes/no questions.

For every yes/no question of `surveys/flying-etiquette.csv` in $BOOLWEAVE_DATA, a line shows how
many answers are right in three-fold cross-validation: the more frequent answer, and a logistic
regression on all other answers (one column for each), on six factors of NMF, and on six factors of
`BooleanMatrixFactorization` as bits and as probabilities. NMF needs a zero for a missing answer.

    BOOLWEAVE_DATA=data python benchmarks/tables.py
    BOOLWEAVE_DATA=data python benchmarks/tables.py --only recline --splits 5
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.decomposition import NMF
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from boolweave import BooleanMatrixFactorization

SURVEY = Path("surveys") / "flying-etiquette.csv"
N_FACTORS = 6

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="questions that contain this text")
    parser.add_argument("--splits", type=int, default=1, help="number of random splits")
    chosen = parser.parse_args()
    path = Path(os.environ.get("BOOLWEAVE_DATA", ".")) / SURVEY
    if not path.exists():
        parser.exit(2, f"{path} is not there; set BOOLWEAVE_DATA to the folder of the surveys\n")
    warnings.simplefilter("ignore")  # some fits do not converge, which is no matter here
    survey = pl.read_csv(path, infer_schema=False)
    for question in yes_or_no(survey):
        if chosen.only in question:
            shares = shares_right(survey, question, chosen.splits)
            figures = "  ".join(f"{name} {share:.1%}" for name, share in shares.items())
            print(f"{question[:50]:<50}  {figures}", flush=True)


if __name__ == "__main__":
    main()
