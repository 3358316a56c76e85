"""Rules about single columns as a text."""

import pytest

from boolweave.encoding.rules import parse_rules


def test_rules():
    rules = parse_rules(
        "age=40,60; income=thresholds:1e3,5e3;hobby=split:;;tag=split:|;n=bins;zip=category;id=drop"
    )
    assert rules.parameters == {
        "numbers": {"income": "thresholds", "n": "bins"},
        "bins": {"age": [40.0, 60.0], "income": [1000.0, 5000.0]},
        "separators": {"hobby": ";", "tag": "|"},
        "categories": ["zip"],
    }
    assert rules.dropped == ("id",)
    assert set(rules.columns) == {"age", "income", "hobby", "tag", "n", "zip", "id"}
    assert parse_rules("hobby=split:;").parameters == {"separators": {"hobby": ";"}}


@pytest.mark.parametrize("text", ["age", "age=", "age=old", "=3", "age=1;age=2", "hobby=split:"])
def test_bad_rules(text):
    with pytest.raises(ValueError, match=r"expected column=RULE|two rules"):
        parse_rules(text)
