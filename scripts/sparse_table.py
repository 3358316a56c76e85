"""Fill docs/sparse.md with the results of `benchmarks/sparse.py`.

With --check, nothing is written, and the script fails if the page is out of date.

    BOOLWEAVE_DATA=... python benchmarks/sparse.py --huge && python scripts/sparse_table.py
"""

from __future__ import annotations

from measured_page import fill, markdown


def sizes(report: dict) -> str:
    rows = [
        [
            " × ".join(map(str, line["shape"])), f"{line['density']:.0%}",
            *(f"{line[way]['cpu_seconds']:.1f}" for way in ("exact", "collective")),
            *(str(line[way]["wrong"]) for way in ("exact", "collective")),
        ]
        for line in report["sizes"]
    ]  # fmt: skip
    head = ["size", "ones", "exact, core-seconds", "collective", "exact, wrong", "collective"]
    return markdown(head, rows)


def tables(report: dict) -> str:
    rows = []
    for line in report["tables"]:
        M, N = line["shape"]
        wrong = [str(line["wrong"][way]) for way in ("exact", "one start", "four")]
        share = f"{line['ones']:.0%}"
        rows.append([line["table"], f"{M * N:,}", share, str(line["K"]), *wrong])
    head = ["table", "cells", "ones", "K", "exact", "collective, one start", "four starts"]
    return markdown(head, rows)


def scaling(report: dict) -> str:
    rows = []
    for line in report["scaling"]:
        each = 1e9 * line["cpu_seconds"] / line["n_ones"] / line["K"]
        rows.append([
            f"{line['n_ones']:,}", f"{each:.1f} ns", f"{line['seconds']:.2g} s",
            f"{line['peak_mb'] / 1e3:.2g} GB",
        ])  # fmt: skip
    head = ["ones", "core time for each one, factor and iteration", "an iteration", "memory"]
    return markdown(head, rows)


def planted(report: dict) -> str:
    """Large matrices, roles, and the comparison with the exact treatment."""
    rows = []
    for part, words in (
        ("large", "100,000 × 20,000, K = 50, 1% of the ones missing and as many added"),
        ("many", "50,000 × 10,000, K = 1000 factors of 40 × 12, 2% missing and as many added"),
    ):
        line = report[part]
        rows.append([
            f"{words}; max-sum, noise given", f"{line['n_ones']:,}", f"{line['jaccard']:.3f}",
            f"{line['seconds']:.0f} s ({line['cpu_seconds']:.0f} core-seconds)",
            f"{line['peak_mb'] / 1e3:.1f} GB",
        ])  # fmt: skip
    groups: dict[tuple[int, int, int], list[dict]] = {}
    for line in report["roles"]:
        groups.setdefault((*line["shape"], line["K"]), []).append(line)
    for (M, N, K), lines in groups.items():
        similar = ", ".join(f"{line['jaccard']:.3f}" for line in lines)
        seconds = [line["seconds"] for line in lines]
        rows.append([
            f"{M} × {N}, K = {K} roles, 5% of the grants missing and 2% added; nothing given but K",
            "", similar, f"{min(seconds):.0f} to {max(seconds):.0f} s",
            f"{max(line['peak_mb'] for line in lines) / 1e3:.1f} GB",
        ])  # fmt: skip
    return markdown(["planted", "ones", "Jaccard", "time", "memory"], rows)


def others(report: dict) -> str:
    """Programs on the planted 2000 × 1500 matrix."""
    rows = [
        [name, str(line["wrong"]), f"{line['seconds']:.1f}"]
        for name, line in report["peers"].items()
    ]
    return markdown(["method", "wrong entries", "seconds"], rows)


def iterations(report: dict) -> str:
    """An iteration, ours and that of ALS."""
    rows = []
    for part, words in (
        ("baskets", "market baskets, 88,162 × 16,470, K = 100"),
        ("large", "planted 100,000 × 20,000, K = 50"),
    ):
        line, als = report[part], report[part]["ALS"]
        ours = line["cpu_seconds"] / line.get("n_iter", 1)
        rows.append([words, f"{ours:.2f}", f"{als['cpu_seconds']:.2f}"])
    return markdown(["core-seconds of an iteration", "boolweave", "ALS (implicit)"], rows)


def equal(report: dict) -> str:
    """How often both treatments of zeros give the same answer from the same first factors."""
    lines = report["equal"]
    same = sum(line["different"] == 0 for line in lines)
    seconds = [sorted(line[f"seconds_{way}"] for line in lines) for way in ("exact", "collective")]
    exact, collective = (values[len(values) // 2] for values in seconds)
    return (
        f"From the same first factors, both treatments gave the same answer in {same} of "
        f"{len(lines)} planted 2000 × 1500 matrices with K = 30, 10% ones and 1% noise; an "
        f"iteration took {exact:.3f} s with exact and {collective:.3f} s with collective zeros "
        "(medians)."
    )


TABLES = {
    "sizes": sizes, "tables": tables, "scaling": scaling, "planted": planted, "others": others,
    "iterations": iterations, "equal": equal,
}  # fmt: skip


if __name__ == "__main__":
    parts = {"planted": "large,many,roles", "others": "peers", "iterations": "baskets,large"}
    fill("sparse", TABLES, made={name: f"sparse:{parts.get(name, name)}" for name in TABLES})
