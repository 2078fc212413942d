"""The catalogue: protocols and parts."""

import pytest

import windward as ww


def test_protocols_know_what_they_are_made_of():
    protocol = ww.protocols["lr-lmxcp"]
    assert protocol.window in ww.parts["window"]
    assert protocol.recovery in ww.parts["recovery"]
    assert "lr2008" in protocol.source
    assert protocol.explain().startswith("#")
    assert "<table>" in ww.protocols._repr_html_()
    with pytest.raises(KeyError, match="newreno"):
        ww.protocols["newrno"]


def test_parts_have_sources_and_parameters():
    assert set(ww.parts) == {"window", "recovery", "discrimination", "feedback", "aqm", "router", "media"}
    for axis, parts in ww.parts.items():
        for name, part in parts.items():
            assert (part.axis, part.name) == (axis, name)
            assert part.what and part.source, name
            for parameter in part.parameters:
                assert parameter.key and parameter.meaning and parameter.range
    red = {parameter.key: parameter for parameter in ww.parts["aqm"]["red"].parameters}
    assert "weight" in red
