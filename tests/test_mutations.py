"""The list of mutations: each still applies to the sources, and the short run kills what was killed before."""

import json

import pytest
from laws import every
from mutations import MUTATIONS, RESULTS, ROOT, seeded

pytestmark = pytest.mark.passes("compiled", reason="it reads sources")


@every(MUTATIONS, lambda mutation: mutation.name)
def test_each_applies(mutation):
    _, text, wrong = seeded(ROOT, mutation)
    assert wrong != text
    assert all((ROOT / "tests" / name.partition("::")[0]).is_file() for name in mutation.tests)


def test_six_of_each_kind():
    kinds = [mutation.kind for mutation in MUTATIONS]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(
        ("kernel", "gradient", "wrapper", "reader", "error"), 6
    )


def test_the_short_run_kills_as_many():
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert found.keys() == {mutation.name for mutation in MUTATIONS}
    left = [name for name, one in found.items() if one["before"]["killed by"] and not one["short run"]["killed by"]]
    assert left == []
