from typing import get_args

import pytest

from services.scheduler.core.policies import policy_of
from services.scheduler.core.settings import CoreSettings, PolicyName


@pytest.mark.parametrize("name", get_args(PolicyName))
def test_each_name_is_a_policy_of_its_own(name: str):
    """One class for each word of the setting."""
    policies = {type(policy_of(CoreSettings(policy=other), lambda _: 0)) for other in get_args(PolicyName)}
    assert type(policy_of(CoreSettings(policy=name), lambda _: 0)) in policies
    assert len(policies) == 4
