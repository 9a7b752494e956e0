"""Before and after a remedy: rows, charts and words for the report, and lines for a terminal."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from class_uncertainty.remedies.diagnosis import Mended, Suspect, costly
from class_uncertainty.reporting.figures import SHAPES, short

ALL = 20  # classes up to which the slopes name each; of more the worst tenth before, and the worst tenth after
APART = 0.035  # of a chart's height from one name to the next
OUT = 0.08  # of the way from before to after: how far beside its line a name stands
LISTED = 5  # classes to each side in a terminal
TINY = 84  # pixels: smaller pictures are shown with their pixels
FALLS, RISES = "error falls", "error rises"
SIDES = ("before", "after")
KINDS = {"few": "few examples", "hard": "hard", "confused": "confused"}


@dataclass(frozen=True)
class Change:
    """A class's error before and after, or how often it is called another class; in percent, mean over the seeds."""

    name: str
    count: int  # training examples
    before: float
    after: float
    called: str = ""

    @property
    def change(self) -> float:
        """Below 0: mended. Rounded, so that means in another order are no change."""
        return round(self.after - self.before, 9) + 0.0


def changes(mended: Mended) -> list[Change]:
    """One for each class, the worst before first."""
    pairs = zip(mended.classes, mended.counts, mended.before.means, mended.after.means, strict=True)
    rows = [Change(name, int(count), float(before), float(after)) for name, count, before, after in pairs]
    return sorted(rows, key=lambda row: -row.before)


def confusions(mended: Mended) -> list[Change]:
    """The pairs that cost most before, or do so after."""
    place = {name: c for c, name in enumerate(mended.classes)}
    sides = mended.before.confusion, mended.after.confusion
    pairs = dict.fromkeys((place[label], place[called]) for side in sides for label, called, _ in costly(side, mended.classes))
    before, after = (np.asarray(side) for side in sides)
    rows = [Change(mended.classes[c], mended.counts[c], float(before[c, k]), float(after[c, k]), mended.classes[k]) for c, k in pairs]
    return sorted(rows, key=lambda row: -row.before)


def witnesses(mended: Mended) -> str:
    """Who takes the suspicious examples for something else: there may be one network only."""
    if mended.witnesses == 1:
        return "a network which never saw them takes for another class"
    number = f"{mended.witnesses} " if mended.witnesses else ""
    return f"{number}networks which never saw them agree to be of another class"


# Charts


def charts(alt: Any, mended: Mended) -> dict[str, Any]:
    return {"slopes": _slopes(alt, changes(mended)), "reliability": _reliability(alt, mended)}


def _slopes(alt: Any, rows: Sequence[Change]) -> Any:
    """A line a class from its error before to that after; direction by colour, by dashes and by triangles."""
    named = len(rows) if len(rows) <= ALL else -(-len(rows) // 10)
    worst = {side: sorted(rows, key=lambda row: -getattr(row, side))[:named] for side in SIDES}
    moved = [row for row in rows if row.change]
    bold = [row for row in moved if any(row in some for some in worst.values())]
    top = 1.04 * max(1.0, *(max(row.before, row.after) for row in rows))
    ticks = {"values": [0, 1], "labelExpr": f"{list(SIDES)}[datum.value]", "grid": False, "ticks": False, "domain": False}
    x = alt.X("at:Q", title=None, scale=alt.Scale(domain=[-1, 2], nice=False), axis=alt.Axis(**ticks))
    y = alt.Y("error:Q", title="error of the class, %", scale=alt.Scale(domain=[0, top], nice=False), axis=alt.Axis(tickCount=5))

    def ends(chosen: Sequence[Change]) -> Any:
        values = [_values(row) | {"at": at, "error": getattr(row, side)} for row in chosen for at, side in enumerate(SIDES)]
        return alt.Chart(alt.Data(values=values)).encode(x, y, detail="name:N", tooltip=_hover(alt))

    layers = [
        ends([row for row in rows if not row.change]).mark_line(style="remark", strokeWidth=1, opacity=0.5),
        ends([row for row in moved if row not in bold]).mark_line(strokeWidth=1, opacity=0.4).encode(**_ways(alt, "color", "strokeDash")),
        ends(bold).mark_line(strokeWidth=2).encode(**_ways(alt, "color", "strokeDash", legend=True)),
        ends(bold).mark_point(filled=True, size=45, opacity=1).encode(**_ways(alt, "color", "shape")),
    ]
    for at, (side, some) in enumerate(worst.items()):
        values = [
            {"label": _label(row, side), "at": at, "error": getattr(row, side), "beside": at + OUT * (2 * at - 1), "height": height}
            for row, height in zip(some, _spread(some, side, top), strict=True)
        ]
        data, beside, height = alt.Chart(alt.Data(values=values)), alt.X("beside:Q", **_as(x)), alt.Y("height:Q", **_as(y))
        text = data.mark_text(style="name", align="left" if at else "right", dx=6 * at - 3, baseline="middle", tooltip=None)
        layers.append(data.mark_rule(style="remark", strokeWidth=1, opacity=0.6, tooltip=None).encode(x, y, x2="beside:Q", y2="height:Q"))
        layers.append(text.encode(beside, height, text="label:N"))
    # the legend is of the bold lines alone
    drawn = alt.layer(*layers).resolve_legend(color="independent", shape="independent", strokeDash="independent")
    return drawn.properties(width=560, height=420, description="Error of each class before and after.")


def _ways(alt: Any, *channels: str, legend: bool = False) -> dict[str, Any]:
    """Encodings that tell errors that fall from those that rise."""
    ranges: dict[str, Any] = {"strokeDash": {"range": [[1, 0], [5, 3]]}, "shape": {"range": ["triangle-down", "triangle-up"]}}
    kinds = {"color": alt.Color, "strokeDash": alt.StrokeDash, "shape": alt.Shape}
    shown = alt.Legend(symbolType="stroke", symbolStrokeWidth=2, symbolSize=300) if legend else None
    return {
        channel: kinds[channel]("way:N", title=None, scale=alt.Scale(domain=[FALLS, RISES], **ranges.get(channel, {})), legend=shown)
        for channel in channels
    }


def _as(channel: Any) -> dict[str, Any]:
    """The scale, axis and title of another channel."""
    return {part: channel[part] for part in ("scale", "axis", "title")}


def _spread(rows: Sequence[Change], side: str, top: float) -> list[float]:
    """Where to write the names, the highest first: as near to their errors as they can be APART, and none below the axis."""
    gap, places = APART * top, [getattr(row, side) for row in rows]
    for i in range(1, len(places)):
        places[i] = min(places[i], places[i - 1] - gap)
    for i in reversed(range(len(places))):
        places[i] = max(places[i], places[i + 1] + gap if i + 1 < len(places) else 0.0)
    return places


def _reliability(alt: Any, mended: Mended) -> Any:
    """Accuracy up, confidence across, a dot a bin, larger where it holds more; on the dashed diagonal they agree."""
    axis = {"scale": alt.Scale(domain=[0, 1]), "axis": alt.Axis(format="~%", tickCount=5)}
    x, y = alt.X("confidence:Q", title="confidence", **axis), alt.Y("accuracy:Q", title="accuracy", **axis)
    diagonal = alt.Chart(alt.Data(values=[{"both": 0}, {"both": 1}])).mark_line(style="diagonal", tooltip=None)
    values = [
        {"side": side, "share": each.share, "confidence": each.confidence, "accuracy": each.accuracy}
        for side in SIDES
        for each in getattr(mended, side).bins
    ]
    domain = [FALLS, RISES, *SIDES]  # the colours of the slopes keep their meaning
    legend = {"title": None, "legend": alt.Legend(values=list(SIDES))}
    colour = alt.Color("side:N", scale=alt.Scale(domain=domain), **legend)
    shape = alt.Shape("side:N", scale=alt.Scale(domain=domain, range=SHAPES[-2:] + SHAPES[:2]), **legend)
    size = alt.Size("share:Q", scale=alt.Scale(range=[25, 260]), legend=None)
    shown = {"share": "share of all", "confidence": "mean confidence", "accuracy": "accuracy"}
    hover = [alt.Tooltip("side:N"), *(alt.Tooltip(f"{field}:Q", title=title, format=".1%") for field, title in shown.items())]
    data = alt.Chart(alt.Data(values=values))
    lines = data.mark_line(strokeWidth=1.5, tooltip=None).encode(x, y, alt.Color("side:N", scale=alt.Scale(domain=domain), legend=None))
    dots = data.mark_point(filled=True, opacity=0.9).encode(x, y, colour, shape, size, tooltip=hover)
    drawn = alt.layer(diagonal.encode(alt.X("both:Q", **axis), alt.Y("both:Q", **axis)), lines, dots)
    drawn = drawn.resolve_legend(color="independent", shape="independent")
    return drawn.properties(width=400, height=360, description="Accuracy by confidence, before and after.")


def _values(row: Change) -> dict[str, Any]:
    way = FALLS if row.change < 0 else RISES
    return {"name": _unicode(row.name), "count": row.count, "before": row.before, "after": row.after, "change": row.change, "way": way}


def _hover(alt: Any) -> list[Any]:
    errors = {"before": "error before, %", "after": "error after, %", "change": "change"}
    return [
        alt.Tooltip("name:N", title="class"),
        alt.Tooltip("count:Q", title="training examples", format=",d"),
        *(alt.Tooltip(f"{field}:Q", title=title, format="+.1f" if field == "change" else ".1f") for field, title in errors.items()),
    ]


def _label(row: Change, side: str) -> str:
    return f"{short(_unicode(row.name))}: {getattr(row, side):.0f} %"


def _unicode(name: str) -> str:
    return name.encode(errors="replace").decode()  # of a folder whose name is not UTF-8


# Words


def view(mended: Mended) -> dict[str, Any]:
    """What the template shows."""
    return {
        "lead": _lead(mended),
        "how": _how(mended),
        "facts": _facts(mended),
        "cost": (f"{mended.cost:.3g}", f"training{'' if mended.cost == 1 else 's'} of one network"),
        "findings": [(KINDS.get(each.kind, ""), each.text) for each in mended.findings],
        "changes": changes(mended),
        "many": len(mended.classes) > ALL,
        "confusions": confusions(mended),
        "suspects": mended.suspects,
        "witnesses": witnesses(mended),
        "pictures": [(each, _width(each) < TINY) for each in mended.suspects if each.picture],
        "note": mended.note,
    }


def _lead(mended: Mended) -> str:
    """Whether the class-mean error fell, over how many seeds, and for how many classes; no word on significance."""
    before, after = np.mean(mended.before.errors), np.mean(mended.after.errors)
    moved = "falls" if after < before else "rises" if after > before else "stays"
    fell, rose = (sum(way * row.change > 0 for row in changes(mended)) for way in (-1, 1))
    seeds = f"{mended.seeds} seed{'' if mended.seeds == 1 else 's'}"
    to = f"from {_mean(mended.before.errors)} % to" if after != before else "at"
    return (
        f"The class-mean error {moved} {to} {_mean(mended.after.errors)} % over {seeds}: "
        f"it falls for {fell} of {len(mended.classes)} classes and rises for {rose}."
    )


def _how(mended: Mended) -> str:
    cooled = "" if mended.cooling is None else f", logits divided by {mended.cooling:.2f}"
    return f"{mended.method}, with {mended.teachers}; τ = {mended.tau:g}, T = {mended.temperature:g}{cooled}."


def _facts(mended: Mended) -> list[tuple[str, str, str]]:
    """(what, before, after) for the strip of numbers."""
    before, after = mended.before, mended.after
    return [
        ("class-mean error, %", _mean(before.errors), _mean(after.errors)),
        ("worst tenth, %", _mean(before.worst), _mean(after.worst)),
        ("balanced ECE, %", f"{before.ece:.1f}", f"{after.ece:.1f}"),
        ("balanced NLL, nats", f"{before.nll:.3f}", f"{after.nll:.3f}"),
    ]


def _mean(values: Sequence[float]) -> str:
    """'8.13 ± 2.28'; the sample standard deviation where there are two values."""
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread}"


def _width(suspect: Suspect) -> int:
    """Of its picture, in pixels: where every PNG says so."""
    return int.from_bytes(base64.b64decode(suspect.picture.partition(",")[2][:32])[16:20], "big")


def lines(mended: Mended) -> list[str]:
    """For a terminal: the findings, then the classes that changed most to each side, those that were found wrong, and the means."""
    from rich.console import Console

    from class_uncertainty.reporting import terminal

    ordered = sorted(changes(mended), key=lambda row: row.change)
    wrong = {each.label for each in mended.findings}
    still = [row for row in ordered if row.change == 0 and row.name in wrong]
    fell, rose = [row for row in ordered if row.change < 0][:LISTED], [row for row in ordered if row.change > 0][-LISTED:]
    cells = [(row.name, f"{row.count}", f"{row.before:.1f}", f"{row.after:.1f}", f"{row.change:+.1f}") for row in (*fell, *still, *rose)]
    cells += [(what, "", before, after, "") for what, before, after in _facts(mended)]
    stream = io.StringIO()
    out = Console(file=stream, width=terminal.console().width, highlight=False)
    table, gone = terminal.fitting(out, ("class", "examples", "before %", "after %", "change"), cells, [["examples"], ["change"]])
    out.print(table)
    told = [line.rstrip() for line in stream.getvalue().splitlines() if line.strip()] + ([terminal.no_room(gone)] if gone else [])
    return [*(each.text for each in mended.findings), *([""] if mended.findings else []), *told]
