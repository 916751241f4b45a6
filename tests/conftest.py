"""What every test shares: one hypothesis profile for a shared, noisy machine."""

from hypothesis import HealthCheck, settings

settings.register_profile("headway", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("headway")
