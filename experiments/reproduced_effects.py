"""Effects of k and m on the page of the paper's numbers: accuracy, and what was left out, beside the best of others."""

from __future__ import annotations

from pages import Row, grouped, table_head, table_line

from orat.cli.tables import TITLES

OTHER = "best other method"


def effects(runs: list[Row], rank: str) -> list[str]:
    """A table for each place of the paper, and in how many of its runs ORAT is ahead of all others."""
    lines = []
    for (data, eps, noise, rate), group in grouped(
        runs, lambda run: (run["data"], run["eps"], run["noise"], run["rate"])
    ):
        ranked = [run for run in group if run["m"] is not None]
        others = [run for run in group if run["m"] is None]
        columns = [name for name in TITLES if name in group[0]["accuracy"]["last"]]
        lines += ["", f"{data}, eps {eps}, {noise} {rate} %, last epoch:", ""]
        lines += table_head([rank, "left out", "of these wrong", *(TITLES[name] for name in columns)])
        for run in ranked:
            found = run["outliers"]
            cells = [
                run[rank],
                found["cut"],
                found["flipped_and_cut"],
                *(f"{reached(run, name):.2f}" for name in columns),
            ]
            lines.append(table_line(cells))
        if others and ranked:
            best = {name: max(others, key=lambda run: reached(run, name)) for name in columns}
            figures = [f"{reached(run, name):.2f} ({run['method']})" for name, run in best.items()]
            ahead = [sum(reached(run, name) > reached(best[name], name) for run in ranked) for name in columns]
            lines += [
                table_line([OTHER, "-", "-", *figures]),
                table_line(["ORAT ahead in", "-", "-", *(f"{count} of {len(ranked)}" for count in ahead)]),
            ]
    return lines


def reached(run: Row, column: str) -> float:
    """Accuracy of the last epoch in %."""
    return 100 * float(run["accuracy"]["last"][column])
