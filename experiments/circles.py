"""Completion of a picture of circles from a few pixels: the paper's appendix on images.

(a) K = 10 and an increasing number of pixels; (b) an increasing number of factors at ρ = 0.02;
(c) with regularization: priors of 0.1 for ones in message passing, quadratic regularization in GLRM
(logistic). In pictures smaller than the paper's 1000 × 1000, the number of observed pixels per row
is the same as in the paper, and K is at most 60.

    python experiments/circles.py            # 200 × 200
    python experiments/circles.py --full     # 1000 × 1000
"""

from __future__ import annotations

import numpy as np
from common import Run, conclude, figure, listed, run_all, save, seconds_of, start, write_csv

MEASURES = ("model", "engine", "fit", "baselines")
METHODS = ("max-sum", "auto", "GLRM")
PANELS = (
    {"rank": 10, "rho": 0.01}, {"rank": 10, "rho": 0.02}, {"rank": 10, "rho": 0.05},
    {"rank": 2, "rho": 0.02}, {"rank": 20, "rho": 0.02}, {"rank": 200, "rho": 0.02},
    {"rank": 20, "rho": 0.02, "regularised": True},
)  # fmt: skip


def circles(size: int) -> np.ndarray:
    """Draw overlapping rings and discs: (size, size) of 0 and 1."""
    y, x = np.indices((size, size)) / size
    picture = np.zeros((size, size), dtype=bool)
    for centre_x, centre_y, outer, inner in (
        (0.32, 0.34, 0.26, 0.16), (0.68, 0.36, 0.22, 0.0), (0.42, 0.72, 0.2, 0.1),
        (0.78, 0.76, 0.16, 0.08), (0.14, 0.84, 0.1, 0.0),
    ):  # fmt: skip
        distance = np.hypot(x - centre_x, y - centre_y)
        picture ^= (distance <= outer) & (distance > inner)
    return picture.astype(np.uint8)


def seen_pixels(size: int, rho: float) -> np.ndarray:
    share = min(1.0, rho * 1000 / size)
    return np.random.default_rng(0).random((size, size)) < share


def one(task: dict) -> dict:
    """Compute the error on unobserved pixels, and the completed picture as hexadecimal bits."""
    from boolweave import BooleanMatrixFactorization
    from boolweave.baselines import GLRM

    truth, mask = circles(task["size"]), seen_pixels(task["size"], task["rho"])
    seen = np.where(mask, truth, np.nan)
    regularised = task["regularised"]
    if task["method"] == "GLRM":
        strength = "auto" if regularised else 0.0
        model = GLRM(task["rank"], regularization=strength, offset=regularised, random_state=0)
    else:
        prior = 0.1 if regularised else None
        model = BooleanMatrixFactorization(
            task["rank"], method=task["method"], row_prior=prior, column_prior=prior, random_state=0
        )
    seconds = seconds_of(model.fit, seen)
    rows, columns = (i.ravel() for i in np.indices(truth.shape))
    found = model.predict(rows, columns).reshape(truth.shape)
    return {
        "error": float(np.mean(found[~mask] != truth[~mask])), "seconds": seconds,
        "picture": np.packbits(found).tobytes().hex(),
    }  # fmt: skip


def draw(run: Run, rows: list[dict], panels: tuple[dict, ...], size: int) -> None:
    """Draw the picture, the observed pixels of the first panel, and all completed pictures."""
    drawn, axes = figure(2 * len(panels) + 2, 6.6, 3, len(panels) + 1)

    def show(axis, image: np.ndarray, title: str, fontsize: int) -> None:
        axis.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(title, fontsize=fontsize)

    truth = circles(size)
    show(axes[0, 0], truth, "original", 9)
    show(axes[1, 0], np.where(seen_pixels(size, panels[0]["rho"]), truth, 0.5), "seen", 9)
    for i, row in enumerate(rows):
        bits = np.unpackbits(np.frombuffer(bytes.fromhex(row["picture"]), np.uint8))
        name = row["method"] + (", reg." if row["regularised"] else "")
        title = f"{name}\nK = {row['rank']}, ρ = {row['rho']:g}: {row['error']:.3f}"
        axis = axes[i % len(METHODS), i // len(METHODS) + 1]
        show(axis, bits[: size * size].reshape(size, size), title, 8)
    for axis in axes.ravel():
        axis.set_axis_off()
    save(run, drawn)


def main() -> None:
    run = start(__file__, __doc__, by_method=False, measures=MEASURES)
    size = run.pick(40, 200, 1000)
    panels = PANELS[1:2] if run.scale == "tiny" else PANELS
    tasks = [
        {"size": size, "method": method, "regularised": False, **panel,
         "rank": min(panel["rank"], run.pick(10, 60, 200))}
        for panel in panels for method in METHODS
    ]  # fmt: skip
    rows = run_all(run, one, tasks)
    table = [{k: v for k, v in row.items() if k != "picture"} for row in rows]
    write_csv(run, table)
    draw(run, rows, panels, size)
    errors = np.array([row["error"] for row in table]).reshape(len(panels), len(METHODS))
    wins = np.bincount(errors.argmin(axis=1), minlength=len(METHODS))
    means = zip(METHODS, errors.mean(axis=0), wins, strict=True)
    words = [f"{error:.3f} with {name} (best in {won})" for name, error, won in means]
    where = f"on unseen pixels over {len(panels)} panels"
    conclude(run, f"The mean error {where} is {listed(words)}.")


if __name__ == "__main__":
    main()
