"""What every test shares: one hypothesis profile and threads that wait asleep, for a shared, noisy machine.

It also lends the default model to every test.
"""

from hypothesis import HealthCheck, settings

from services.executor.threads import wait_passively
from tests.support.default_model import default_model, loaded_default_model

__all__ = ["default_model", "loaded_default_model"]

wait_passively()
settings.register_profile("headway", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("headway")
