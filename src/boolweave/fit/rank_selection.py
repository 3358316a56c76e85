"""What a choice of the number of factors found: the score of every rank, and how clear it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from boolweave.runtime.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Criterion = Literal["mdl", "heldout"]

# Maximum number of characters of the bars in a table of ranks.
BAR = 30

# A description that is longer than the shortest one by at most this fraction is nearly as good.
NEARLY = 0.02


@dataclass(frozen=True, eq=False)
class RankSelection:
    """The criterion for every rank tried, and the best rank.

    Attributes
    ----------
    ranks : (R,) array of int
    scores : (R,) array
        Description length in bits ("mdl"), or mean log-loss of held-out entries ("heldout"); lower
        is better.
    errors : (R,) array
        Standard error of each score; 0 for "mdl".
    best : int
        The rank with the lowest score; with criterion="heldout" of `select_rank`, the lowest rank
        whose score exceeds that by at most one standard error of the difference, or by at most 2
        nats in all for each factor less.
    criterion : {"mdl", "heldout"}
    interrupted : bool
        Whether Ctrl-C ended the search, so that it chose among the ranks tried before that.
    costs : (R,) array or None
        With objective="errors": the lowest cost that was found at each rank, as in `error_` of a
        fit. It does not rise with the rank.
    missed, false_ones : (R,) arrays of int, or None
        With objective="errors": the number of ones that the factors with this cost miss, and of
        zeros that they cover.
    without : float
        The score without any factor; NaN if it is not known.
    """

    ranks: NDArray[np.int64]
    scores: NDArray[np.float64]
    errors: NDArray[np.float64]
    best: int
    criterion: Criterion
    interrupted: bool = False
    costs: NDArray[np.float64] | None = None
    missed: NDArray[np.int64] | None = None
    false_ones: NDArray[np.int64] | None = None
    without: float = np.nan

    def __repr__(self) -> str:
        return f"RankSelection({self.sentence})"

    @property
    def elbow(self) -> int:
        """The rank at which the curve bends: few factors that bring most of the gain.

        Of the ranks up to the best one, it is the one whose score lies farthest below the straight
        line from the score without factors to that of the best rank.
        """
        upto = self.ranks <= self.best
        ranks, scores = self.ranks[upto], self.scores[upto]
        end, least = ranks[-1], scores[-1]
        start, most = (0, self.without) if np.isfinite(self.without) else (ranks[0], scores[0])
        if end == start:
            return self.best
        line = most + (least - most) * (ranks - start) / (end - start)
        below = line - scores
        return int(ranks[int(np.argmax(below))]) if below.max() > 0 else self.best

    @property
    def nearly_as_good(self) -> tuple[int, int]:
        """The lowest and the highest of the ranks around the best that are nearly as good.

        Their description is at most 2% longer than that of the best rank; with held-out entries,
        their log-loss is higher by at most one standard error.
        """
        place = int(np.flatnonzero(self.ranks == self.best)[0])
        score = self.scores[place]
        margin = NEARLY * abs(score) if self.criterion == "mdl" else self.errors[place]
        good = self.scores <= score + margin
        low = high = place
        while low > 0 and good[low - 1]:
            low -= 1
        while high + 1 < len(good) and good[high + 1]:
            high += 1
        return int(self.ranks[low]), int(self.ranks[high])

    @property
    def is_at_limit(self) -> bool:
        """Whether the best rank is the largest one tried although factors still have errors."""
        explained = self.costs is not None and self.costs[-1] == 0
        return self.best == int(self.ranks[-1]) and not explained

    @property
    def sentence(self) -> str:
        """The best number of factors, and how clear it is, in words."""
        low, high = self.nearly_as_good
        if low == high:
            clear = "no other number that was tried is nearly as good"
        elif high - low == 1:
            clear = f"{low if high == self.best else high} would be nearly as good"
        else:
            clear = f"{low} to {high} are nearly as good"
        words = f"{counted(self.best, 'factor')}; {clear}"
        if self.elbow != self.best:
            words += f"; the curve bends at {self.elbow}"
        if self.is_at_limit:
            words += f"; {self.best} is the largest number that was tried, so more may be better"
        return words

    def table(self) -> list[dict[str, int | float | bool]]:
        """One dictionary per rank: rank, score, error, and whether it is the best.

        With objective="errors", there are also cost, missed and false_ones.
        """
        lines: list[dict[str, int | float | bool]] = [
            {"rank": int(k), "score": float(s), "error": float(e), "best": bool(k == self.best)}
            for k, s, e in zip(self.ranks, self.scores, self.errors, strict=True)
        ]
        for name in ("costs", "missed", "false_ones"):
            values = getattr(self, name)
            if values is not None:
                for line, value in zip(lines, values.tolist(), strict=True):
                    line["cost" if name == "costs" else name] = value
        return lines

    def __str__(self) -> str:
        unit = "bits" if self.criterion == "mdl" else "log-loss"
        lines = [f"{'rank':>5} {unit:>14}"]
        if self.costs is not None:
            lines[0] += f" {'missed':>10} {'false ones':>10} {'cost':>10}  (less is better)"
        for row in self.table():
            line = f"{row['rank']:>5} {row['score']:>14.7g}"
            if self.costs is not None:
                bar = "#" * round(BAR * row["cost"] / max(1.0, float(self.costs.max())))
                line += f" {row['missed']:>10} {row['false_ones']:>10} {row['cost']:>10.7g}  {bar}"
            lines.append(line + self._mark(int(row["rank"])))
        return "\n".join([*lines, self.sentence])

    def _mark(self, rank: int) -> str:
        if rank == self.best:
            return "  <- best"
        return "  <- elbow" if rank == self.elbow else ""

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw the criterion against the rank (needs matplotlib), and save it to `path`, if given.

        With objective="errors", a second curve below shows the cost.
        """
        from boolweave.plot import plot_scores

        bits = self.criterion == "mdl"
        figure = plot_scores(
            self.ranks, self.scores, self.errors, self.best,
            x_label="number of factors",
            y_label="description length (bits)" if bits else "log-loss of held-out entries",
            below=None if self.costs is None else ("errors", self.costs),
        )  # fmt: skip
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure
