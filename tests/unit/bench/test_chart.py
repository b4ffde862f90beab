"""The chart of the README shows the figures of results.json."""

from __future__ import annotations

from xml.etree import ElementTree

from bench import chart, results


def test_the_checked_in_chart_equals_what_results_json_gives() -> None:
    assert chart.SVG.read_text() == chart.render(results.load(chart.RESULTS)), (
        "write the chart again: python -m bench.chart"
    )


def test_each_panel_has_a_bar_and_a_figure_for_each_system() -> None:
    svg = ElementTree.fromstring(chart.SVG.read_text())
    panels = [each for each in svg if each.tag.endswith("}g")]
    assert len(panels) == len(chart.PANELS)
    for panel in panels:
        bars = {each.get("class"): each for each in panel if each.tag.endswith("}rect")}
        assert set(bars) == {"causeway", "mm2", "mm2-tuned"}
        texts = [each.text for each in panel if each.tag.endswith("}text")]
        assert len(texts) == 2 + 2 * len(bars)
