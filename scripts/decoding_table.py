"""Fill docs/decoding.md with the results of `benchmarks/decoding.py`.

With --check, nothing is written, and the script fails if the page is out of date.

    BOOLWEAVE_DATA=... python benchmarks/decoding.py && python scripts/decoding_table.py
"""

from __future__ import annotations

from measured_page import fill, markdown

RULES = ("COMP", "DD", "SCOMP")


def codes(report: dict) -> str:
    """Speed compared with ldpc, by code and method."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for line in report["against_ldpc"]:
        groups.setdefault((line["code"], line["method"]), []).append(line)
    rows = []
    for (code, method), lines in groups.items():
        apart = max(line["standard_errors_apart"] for line in lines)
        rows.append([code, method, span(lines, "ratio"), span(lines, "ratio_all_cores"),
                     f"{apart:.1f}"])  # fmt: skip
    head = ["code", "method", "speed, one thread", "two threads", "word error rates, σ apart"]
    return markdown(head, rows, {0, 1})


def span(lines: list[dict], name: str) -> str:
    low, high = min(line[name] for line in lines), max(line[name] for line in lines)
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"


def published(report: dict) -> str:
    rows = [
        [line["code"], f"{line['ebn0_db']:.1f}", f"{line['word_error_rate']:.4f}",
         f"{line['published']:.4f}", f"{line['standard_errors_apart']:.1f}"]
        for line in report["against_published"]
    ]  # fmt: skip
    return markdown(["code", "dB", "boolweave", "published", "σ apart"], rows)


def pools(report: dict) -> str:
    rows = []
    for line in report["sweep_of_pools"]:
        each = [line, *(line["rules"][rule] for rule in RULES)]
        cells = [f"{one['exact']:.2f}, {one['missed'] + one['false']:.1f}" for one in each]
        rows.append([str(line["pools"]), *cells])
    return markdown(["pools", "boolweave", *RULES], rows)


def calibration(report: dict) -> str:
    rows = [
        [str(line["pools"]), f"{line['from']:g} to {line['to']:g}", f"{line['items']:,}",
         f"{line['mean']:.4f}", f"{line['positive']:.4f}"]
        for line in report["calibration"]
    ]  # fmt: skip
    return markdown(["pools", "probability", "items", "mean probability", "positive"], rows, {1})


def large(report: dict) -> str:
    rows = [
        [str(line["pools_per_item"]), line["schedule"], f"{line['seconds_per_100_iterations']:.1f}",
         str(line["positive"]), str(line["missed"]), str(line["false"])]
        for line in report["large_problem"]
    ]  # fmt: skip
    head = ["pools of an item", "schedule", "seconds", "positive", "missed", "false alarms"]
    return markdown(head, rows, {1})


TABLES = {"codes": codes, "published": published, "pools": pools, "calibration": calibration,
          "large": large}  # fmt: skip


if __name__ == "__main__":
    parts = {"codes": "against_ldpc", "published": "against_published", "pools": "sweep_of_pools",
             "calibration": "calibration", "large": "large_problem"}  # fmt: skip
    fill("decoding", TABLES, made={name: f"decoding:{part}" for name, part in parts.items()})
