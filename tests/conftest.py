"""What every test shares: one hypothesis profile for a shared, noisy machine, and the default model's file."""

from hypothesis import HealthCheck, settings

from tests.support.default_model import default_model

__all__ = ["default_model"]

settings.register_profile("headway", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("headway")
